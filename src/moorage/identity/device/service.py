"""Signing a command line in through a browser, as RFC 8628 has it: the machine shows a short code, a signed-in person
approves it, the machine's next question is answered with a session of that person's."""

import secrets

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.device import repository
from moorage.identity.device.models import DeviceLoginRow
from moorage.identity.sign_in.service import begin_session
from moorage.identity.tokens import DEVICE_PREFIX, is_well_formed, new_token
from moorage.identity.users.models import UserRow
from moorage.identity.users.repository import find_user
from moorage.kit.crypto import sha256
from moorage.kit.errors import NotAuthenticatedError, NotFoundError, TooManyRequestsError
from moorage.kit.settings import Settings

WAITING_LIMIT = 50_000
"""Of all sources: what the disk has room for. Nobody but very many sources together reaches it."""
# No vowels, so that no words come out, and nothing that looks like something else.
_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"


async def start(session: AsyncSession, settings: Settings, source: str, client_name: str) -> tuple[str, str]:
    """The device's code and the person's."""
    most = settings.device_codes_per_source
    if settings.limit_by_source and not await repository.has_room_from(session, source, most):
        raise TooManyRequestsError(
            f"{most} sign-ins from your network wait for approval. Try again in 10 minutes.",
            retry_after_s=int(repository.LIFETIME.total_seconds()),
        )
    if not await repository.has_room(session, WAITING_LIMIT):
        raise TooManyRequestsError("Too many sign-ins wait for approval. Try again soon.", retry_after_s=60)
    device_code = new_token(DEVICE_PREFIX)
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    user_code = f"{letters[:4]}-{letters[4:]}"
    await repository.add_login(session, sha256(device_code), user_code, client_name, source)
    return device_code, user_code


async def find(session: AsyncSession, user_code: str) -> DeviceLoginRow:
    row = await repository.find_undecided(session, _as_written(user_code))
    if row is None:
        raise _unknown_code()
    return row


async def decide(session: AsyncSession, user_code: str, user_id: str, approved: bool) -> None:
    if not await repository.decide(session, _as_written(user_code), user_id, approved):
        raise _unknown_code()


async def collect(session: AsyncSession, device_code: str, source: str) -> tuple[UserRow, str] | None:
    """The person who approved and a session of theirs, once; None while nobody has decided."""
    row = None
    if is_well_formed(device_code, DEVICE_PREFIX):
        row = await repository.find_live(session, sha256(device_code))
    if row is None or (row.decided_by is not None and not row.approved):
        raise NotAuthenticatedError("The sign-in was refused or took longer than 10 minutes. Start again.")
    if row.decided_by is None:
        return None
    user = await find_user(session, row.decided_by)
    assert user is not None, "a foreign key says so"
    await repository.remove(session, row)
    return user, await begin_session(session, user, row.client_name, source)


def _as_written(user_code: str) -> str:
    letters = "".join(character for character in user_code.upper() if character.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def _unknown_code() -> NotFoundError:
    return NotFoundError("No sign-in waits under this code. Codes work for 10 minutes. Start again.")
