"""What every endpoint needs from the request: a session whose transaction commits before the answer is sent."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clients import source_of
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.idempotency import note_commit
from moorage.kit.jobs.jobs import Jobs
from moorage.kit.json_bounds import MOST_VALUES
from moorage.kit.settings import Settings
from moorage.kit.streams import OpenStreams

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Change nothing, so they need no transaction and no CSRF token."""
_BODY_BOUNDS = "moorage_body_bounds"
_AT_THE_END = "moorage_at_the_end"
EndpointT = TypeVar("EndpointT", bound=Callable[..., object])


STRANGERS_BODY_BYTES = 4 * 2**10
"""Enough for an address and a code, which is all that somebody who is not signed in has to say."""


@dataclass(frozen=True)
class BodyBounds:
    """What a route takes at most."""

    most_bytes: int = 64 * 2**10
    most_values: int = MOST_VALUES
    for_strangers: bool = False
    """Also of somebody who brings neither a key nor a cookie."""


def takes_body(
    most_bytes: int, most_values: int = MOST_VALUES, *, for_strangers: bool = False
) -> Callable[[EndpointT], EndpointT]:
    """On an endpoint whose body is larger, or smaller, than that of the others."""

    def declare(endpoint: EndpointT) -> EndpointT:
        strangers = for_strangers or most_bytes <= STRANGERS_BODY_BYTES
        setattr(endpoint, _BODY_BOUNDS, BodyBounds(most_bytes, most_values, strangers))
        return endpoint

    return declare


def body_bounds_of(endpoint: object) -> BodyBounds | None:
    bounds: BodyBounds | None = getattr(endpoint, _BODY_BOUNDS, None)
    return bounds


# Asynchronous although nothing is awaited: FastAPI calls a plain function in another thread, for half a millisecond each.
async def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _keyring(request: Request) -> Keyring:
    keyring: Keyring = request.app.state.keyring
    return keyring


async def _streams(request: Request) -> OpenStreams:
    streams: OpenStreams = request.app.state.streams
    return streams


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


async def _clock(request: Request) -> Clock:
    clock: Clock = request.app.state.clock
    return clock


async def _source(request: Request) -> str:
    return source_of(request.client.host if request.client is not None else "")


TheDatabase = Annotated[Database, Depends(_database)]
TheSettings = Annotated[Settings, Depends(_settings)]
TheKeyring = Annotated[Keyring, Depends(_keyring)]
TheClock = Annotated[Clock, Depends(_clock)]
TheStreams = Annotated[OpenStreams, Depends(_streams)]
TheJobs = Annotated[Jobs, Depends(_jobs)]
TheSource = Annotated[str, Depends(_source)]
"""Where a request comes from, for limits on strangers."""


async def _session(request: Request, database: TheDatabase) -> AsyncIterator[AsyncSession]:
    if request.method in SAFE_METHODS:
        async with database.reading() as session:
            yield session
    else:
        async with database.session() as session:
            yield session
            attempt = getattr(request.state, "idempotency_attempt", None)
            if attempt is not None:
                await note_commit(session, attempt)
            for work in session.info.get(_AT_THE_END, ()):
                await work()
            await session.commit()


async def at_the_end(request: Request, session: AsyncSession, work: Callable[[], Awaitable[None]]) -> None:
    """Do it last before the commit, so that what it locks is held for no longer than that: otherwise somebody who holds what this
    request has yet to ask for might wait for it. At once where there is no transaction."""
    if request.method in SAFE_METHODS:
        await work()
    else:
        session.info.setdefault(_AT_THE_END, []).append(work)


# "function" scope: the commit happens when the endpoint returns, not after the client has been told "done". An
# endpoint that goes on to talk to somebody else commits first, which gives its connection back.
TheSession = Annotated[AsyncSession, Depends(_session, scope="function")]
