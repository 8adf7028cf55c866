"""How many codes may be asked for and how many wrong ones entered, so that nobody is flooded with mails, nobody guesses
their way in, and nobody can use the limits to keep an address's owner out.

By origin: its codes for one address, its codes for all addresses, and its wrong codes. By address: the codes that
strangers ask for, whoever they are. A browser with the address's device cookie and a source from which the address
signed in before are no strangers, and have a quota of their own.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.sign_in import limits_repository as repository
from moorage.identity.sign_in.origins import Origin
from moorage.kit.errors import TooManyRequestsError
from moorage.kit.settings import Settings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Limit:
    most: int
    within: timedelta


OF_ORIGIN = Limit(6, HOUR)
"""Codes for one address."""
OF_STRANGER = Limit(12, DAY)
"""The same: less than what all strangers have, so that it takes several of them to use that up."""
OF_STRANGERS = (Limit(10, HOUR), Limit(30, DAY))
"""Codes for one address. With ten tries for each code, all the guesses of a day are right once in 3,000 days."""


async def require_room_for_code(
    session: AsyncSession, settings: Settings, address: str, origin: Origin
) -> bool:
    """Whether the origin is known to the address. Until the transaction ends, nobody else asks for the same."""
    by_source = settings.limit_by_source
    await repository.lock_origin(session, origin.name)
    await repository.lock_address(session, address)
    known = origin.is_device or (by_source and await repository.is_known(session, address, origin.source))
    if by_source and not origin.is_device:
        most = settings.sign_in_codes_per_source
        _require(await repository.wait_for_codes(session, most, HOUR, origin=origin.name), _HERE)
    for limit in (OF_ORIGIN,) if known or not by_source else (OF_ORIGIN, OF_STRANGER):
        wait_s = await repository.wait_for_codes(
            session, limit.most, limit.within, origin=origin.name, address=address
        )
        _require(wait_s, _ADDRESS)
    for limit in () if known else OF_STRANGERS:
        wait_s = await repository.wait_for_codes(
            session, limit.most, limit.within, address=address, strangers=True
        )
        _require(wait_s, _STRANGERS)
    return known


async def take_guess(session: AsyncSession, settings: Settings, origin: Origin) -> int | None:
    """Counted as wrong until it turns out to be right (`limits_repository.forget_guess`), so that racing ones count.
    None where it is not counted."""
    if not settings.limit_by_source and not origin.is_device:
        return None
    await repository.lock_origin(session, origin.name)
    wait_s = await repository.wait_for_guesses(session, settings.wrong_codes_per_source, HOUR, origin.name)
    _require(wait_s, _WRONG)
    return await repository.add_guess(session, origin.name)


_HERE = "Your network asked for too many codes. Wait {wait} and try again."
_ADDRESS = "Too many codes were requested for this address. Wait {wait} and try again."
_STRANGERS = (
    "Too many codes for this address were requested from places where it never signed in. Use a browser or "
    "network where you have signed in before, or wait {wait}."
)
_WRONG = "Too many wrong codes were entered from your network. Wait {wait} and try again."


def _require(wait_s: int | None, refusal: str) -> None:
    if wait_s is not None:
        minutes = -(-wait_s // 60)
        wait = "a minute" if minutes == 1 else f"{minutes} minutes"
        raise TooManyRequestsError(refusal.format(wait=wait), retry_after_s=wait_s)
