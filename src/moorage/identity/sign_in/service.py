"""Sign-in without passwords: a code by mail, or a one-time link.

Known and unknown addresses get the same answer and the same mail; an account is made when its first code is
entered. Who may come while sign-up is closed, and what a new person is given (an organization of their own), lies
above this package and is passed in as `Newcomers`.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.sessions.repository import create_session
from moorage.identity.sign_in import limits, limits_repository, repository
from moorage.identity.sign_in.origins import Caller, origin_of
from moorage.identity.tokens import LINK_PREFIX, SESSION_PREFIX, is_well_formed, new_token
from moorage.identity.users.models import UserRow
from moorage.identity.users.repository import create_user, find_user, find_user_by_email
from moorage.kit.crypto import Keyring, equal, keyed_hash, sha256
from moorage.kit.database import Database
from moorage.kit.email import normalized
from moorage.kit.errors import (
    FieldError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
)
from moorage.kit.ids import UserId, new_sign_in_code_id
from moorage.kit.settings import Settings
from moorage.notifications.repository import queue_mail


@dataclass(frozen=True)
class Newcomers:
    is_invited: Callable[[AsyncSession, str], Awaitable[bool]]
    welcome: Callable[[AsyncSession, UserRow], Awaitable[None]]


async def start_email(
    session: AsyncSession, keyring: Keyring, settings: Settings, email: str, caller: Caller
) -> None:
    address = _checked(email)
    origin = origin_of(keyring, address, caller)
    known = await limits.require_room_for_code(session, settings, address, origin)
    code = f"{secrets.randbelow(1_000_000):06d}"
    code_id = new_sign_in_code_id()
    code_hash = _code_hash(keyring, code_id, code)
    await repository.add_code(session, code_id, address, code_hash, origin.name, by_stranger=not known)
    text = (
        f"Your sign-in code for Moorage is {code}\n\n"
        "It works for 10 minutes. If you did not ask for it, ignore this mail. Nobody can sign in without "
        "the code.\n"
    )
    subject = f"{code} is your Moorage code"
    await queue_mail(session, keyring, to=address, subject=subject, text=text, is_awaited=True)


async def verify_email(
    database: Database,
    keyring: Keyring,
    settings: Settings,
    email: str,
    code: str,
    newcomers: Newcomers,
    caller: Caller,
    client: str,
) -> tuple[UserRow, str]:
    """The signed-in user and their session token. The try is spent in a transaction of its own, so that the
    refusal that follows cannot give it back."""
    address = _checked(email)
    origin = origin_of(keyring, address, caller)
    async with database.transaction() as session:
        guess_id = await limits.take_guess(session, settings, origin)
        await limits_repository.lock_address(session, address)
        codes = await repository.take_tries(session, address, origin.name)
    right = [one for one in codes if equal(one.code_hash, _code_hash(keyring, one.id, code.strip()))]
    if not right:
        raise NotAuthenticatedError("The code is wrong, used or older than 10 minutes. Ask for a new one.")
    async with database.transaction() as session:
        if not await repository.use_code(session, right[0].id):
            raise NotAuthenticatedError("The code was already used. Ask for a new one.")
        if guess_id is not None:
            await limits_repository.forget_guess(session, guess_id)
        user = await user_of(session, settings, address, newcomers)
        return user, await begin_session(session, user, client, caller.source)


async def user_of(session: AsyncSession, settings: Settings, address: str, newcomers: Newcomers) -> UserRow:
    """The person with this verified address, who may be new."""
    refusal = _sign_up_refusal(settings, address)
    if refusal is not None:
        known = await find_user_by_email(session, address) is not None
        if not known and not await newcomers.is_invited(session, address):
            raise ForbiddenError(f"{refusal} Ask {settings.support_contact} for an invitation.")
    user, is_new = await create_user(session, address)
    if is_new:
        await newcomers.welcome(session, user)
    return user


async def create_link(session: AsyncSession, user: UserRow) -> str:
    token = new_token(LINK_PREFIX)
    await repository.add_link(session, user.id, sha256(token))
    return token


async def verify_link(session: AsyncSession, token: str, client: str, source: str) -> tuple[UserRow, str]:
    well_formed = is_well_formed(token, LINK_PREFIX)
    user_id = await repository.use_link(session, sha256(token)) if well_formed else None
    user = await find_user(session, user_id) if user_id is not None else None
    if user is None:
        raise NotAuthenticatedError(
            "This link has expired or was already used. Run `moor sign-in-link` for a new one."
        )
    return user, await begin_session(session, user, client, source)


async def begin_session(session: AsyncSession, user: UserRow, client: str, source: str) -> str:
    """From now on, who asks from there for a code for this address is no stranger."""
    await limits_repository.remember_source(session, user.email, source)
    token = new_token(SESSION_PREFIX)
    await create_session(session, UserId(user.id), sha256(token), client)
    return token


def _sign_up_refusal(settings: Settings, address: str) -> str | None:
    """Why somebody new with this address needs an invitation."""
    if settings.sign_up == "closed":
        return "Sign-up is closed here."
    domains = settings.sign_up_domains
    if domains and address.rpartition("@")[2] not in domains:
        return f"Only addresses of {', '.join(domains)} can sign up here."
    return None


def _checked(email: str) -> str:
    try:
        return normalized(email)
    except ValueError as exc:
        raise InvalidInputError(
            "The e-mail address is not valid.", fields=(FieldError("email", str(exc)),)
        ) from exc


def _code_hash(keyring: Keyring, code_id: str, code: str) -> bytes:
    # Six digits are guessed in no time from a plain hash; the master key is not in the database.
    return keyed_hash(keyring.keys[-1][1], f"sign-in-code:{code_id}:{code}")
