"""Sign-in through somebody else. A person is known by (issuer, subject); an address links an account that is there to a
provider only when both sides verified it, because whoever may claim an address freely could claim anybody's."""

from collections.abc import Mapping

import httpx2
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.providers import repository
from moorage.identity.providers.base import Claimed, Provider, Secrets, refused
from moorage.identity.sign_in.service import Newcomers, begin_session, user_of
from moorage.identity.tokens import PROVIDER_ATTEMPT_PREFIX, is_well_formed, new_token
from moorage.identity.users.models import UserRow
from moorage.identity.users.repository import find_user_by_email
from moorage.kit.crypto import equal, sha256
from moorage.kit.database import Database
from moorage.kit.email import normalized
from moorage.kit.errors import (
    FieldError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    TooManyRequestsError,
    UnavailableError,
)
from moorage.kit.settings import Settings

log = structlog.get_logger()

MOST_PER_SOURCE = 100
"""Sign-ins under way, each for ten minutes at most."""
MOST_UNDER_WAY = 50_000


async def begin(
    database: Database, settings: Settings, provider: Provider, return_to: str, source: str
) -> tuple[str, str]:
    """Where to send the browser, and the token that it must bring back as a cookie."""
    # A path of ours: anything else would make us a stepping stone to another site.
    if not return_to.startswith("/") or return_to.startswith("//") or not _is_plain(return_to):
        fields = (FieldError("return_to", "must be a path that begins with one slash"),)
        raise InvalidInputError("The path to return to is not valid.", fields=fields)
    async with database.transaction() as session:
        if not await _has_room(session, settings, source):
            raise TooManyRequestsError(
                "Too many sign-ins are under way. Try again in 10 minutes, or sign in with a mailed code.",
                retry_after_s=int(repository.ATTEMPT_LIFETIME.total_seconds()),
            )
        token = new_token(PROVIDER_ATTEMPT_PREFIX)
        await repository.add_attempt(session, sha256(token), provider.name, return_to, source)
    try:
        url = await provider.authorization_url(Secrets(token))
    except (httpx2.HTTPError, KeyError, ValueError) as exc:
        raise _no_answer(provider, exc) from exc
    return url, token


async def _has_room(session: AsyncSession, settings: Settings, source: str) -> bool:
    here = not settings.limit_by_source or await repository.has_room(session, MOST_PER_SOURCE, source)
    return here and await repository.has_room(session, MOST_UNDER_WAY)


async def finish(
    database: Database,
    settings: Settings,
    newcomers: Newcomers,
    provider: Provider,
    token: str,
    answer: Mapping[str, str],
    client: str,
    source: str,
) -> tuple[UserRow, str, str]:
    """Who it is, a session's token, and where to go with it."""
    return_to = None
    if is_well_formed(token, PROVIDER_ATTEMPT_PREFIX):
        async with database.transaction() as session:
            return_to = await repository.use_attempt(session, sha256(token), provider.name)
    secrets = Secrets(token)
    if return_to is None or not equal(answer.get("state", "").encode(), secrets.state.encode()):
        raise NotAuthenticatedError(
            "This sign-in was not begun in this browser, or was begun more than 10 minutes ago. Start again.",
            code="sign_in_not_begun",
        )
    if "error" in answer or "code" not in answer:
        raise refused("or you cancelled it" if answer.get("error") == "access_denied" else "sent an error")
    if answer.get("iss", provider.issuer) != provider.issuer:
        raise refused("is not the one that was asked")
    try:
        claimed = await provider.claimed(answer["code"], secrets)
    except httpx2.HTTPError as exc:
        raise _no_answer(provider, exc) from exc
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise refused("sent an answer that makes no sense") from exc
    async with database.transaction() as session:
        user = await _user(session, settings, newcomers, claimed)
        return user, await begin_session(session, user, client, source), return_to


async def _user(session: AsyncSession, settings: Settings, newcomers: Newcomers, claimed: Claimed) -> UserRow:
    known = await repository.find_user_of_identity(session, claimed.issuer, claimed.subject)
    if known is not None:
        return known
    if not claimed.email_verified:
        raise ForbiddenError(
            "The provider has not verified your e-mail address. Verify it there, or sign in with a mailed code.",
            code="email_not_verified",
        )
    try:
        address = normalized(claimed.email)
    except ValueError as exc:
        raise ForbiddenError(f"The address that the provider gave {exc}.", code="email_not_usable") from exc
    existing = await find_user_by_email(session, address)
    if existing is not None and existing.email_verified_at is None:
        raise ForbiddenError(
            "An account with this address exists, but the address was never proven. Sign in with a mailed code first.",
            code="account_not_verified",
        )
    user = await user_of(session, settings, address, newcomers)
    await repository.add_identity(session, claimed.issuer, claimed.subject, user.id, address)
    return user


def _is_plain(path: str) -> bool:
    return path.isascii() and path.isprintable() and "\\" not in path


def _no_answer(provider: Provider, error: Exception) -> UnavailableError:
    log.warning("provider_failed", provider=provider.name, error=repr(error))
    return UnavailableError(
        f"{provider.title} does not answer as expected. Try again in a moment, or sign in by e-mail.",
        code="provider_unavailable",
    )
