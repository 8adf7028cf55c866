"""A replica behind a door dies under load: what nobody had begun to answer is answered by another one."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace

import aiohttp
import pytest
from gateway_support import Place, make_place
from mortal_replica import PIECES, MortalReplica, mortal_replica
from test_gateway_doors import SIGNS, serving

from moorage.gateway.table import GatewayTable, Server
from moorage.kit import ids
from tests.door_process import door_of
from tests.ports import free_port

FIRST, SECOND = "127.82.1.1", "127.82.1.2"
LARGE = b"x" * 200_000
"""More than a buffer of HAProxy's: it cannot be sent a second time once any of it was."""
CONNECT_TIMEOUT_S = 1
_HEARD_S = 0.5
"""Until a gateway has been told by a door that the connections that it keeps are at their end."""
_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("gw")
    place = make_place(folder, queue_timeout_s=10, queue_limit=1000, connect_timeout_s=CONNECT_TIMEOUT_S)
    yield place
    place.kill()


@dataclass(frozen=True)
class Failure:
    began_s: float
    ended_s: float
    keeps_connection: bool
    how: str


@dataclass
class Load:
    """Open: requests leave when they are due, whatever became of those before."""

    url: str
    headers: dict[str, str]
    per_s: int
    failed: list[Failure] = field(default_factory=list)
    answered: int = 0
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        sending = asyncio.create_task(self._send())
        try:
            yield
        finally:
            self._over.set()
            await sending

    async def reaches(self, count: int) -> None:
        async with asyncio.timeout(60 + count / self.per_s):
            while self.answered + len(self.failed) < count:  # noqa: ASYNC110 — counts, and not one event
                await asyncio.sleep(0.005)

    async def _send(self) -> None:
        began_s, sent = time.monotonic(), 0
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as keeping,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as closing,
            asyncio.TaskGroup() as group,
        ):
            while not self._over.is_set():
                due = int((time.monotonic() - began_s) * self.per_s)
                for number in range(sent, due):
                    # A new connection of a client's is a new one of the gateway's.
                    keeps = number % 3 == 0
                    group.create_task(
                        self._one(keeping if keeps else closing, number, keeps_connection=keeps)
                    )
                sent = max(sent, due)
                await asyncio.sleep(0.005)

    async def _one(self, session: aiohttp.ClientSession, number: int, *, keeps_connection: bool) -> None:
        body = LARGE if number % 5 == 0 else b"a prompt"
        path = "/stream" if number % 7 == 0 else "/v1/x"
        began_s = time.monotonic()
        try:
            async with (
                asyncio.timeout(_WITHIN_S),
                session.post(self.url + path, data=body, headers=self.headers) as answer,
            ):
                text = await answer.text()
                if answer.status == 200 and set(text.split()) == {str(len(body))}:
                    self.answered += 1
                    return
                how = f"{answer.status} {text[:60]}"
        except (aiohttp.ClientError, TimeoutError) as exc:
            how = repr(exc)[:60]
        self.failed.append(Failure(began_s, time.monotonic(), keeps_connection, how))


@contextlib.asynccontextmanager
async def mortal(address: str, *, door: bool = True) -> AsyncIterator[tuple[MortalReplica, Server]]:
    """A replica that is a process, and what a gateway would be told of it."""
    replica_id, port = ids.new_replica_id(), free_port()
    async with contextlib.AsyncExitStack() as stack:
        replica = await stack.enter_async_context(mortal_replica(address, port))
        if door:
            port = await stack.enter_async_context(door_of(replica_id, SIGNS, address, port))
        yield replica, Server(replica_id, address, port, has_door=door)


async def told(place: Place, *servers: Server) -> tuple[str, dict[str, str]]:
    """Where a container with these replicas is, and the key to it."""
    wanted, path, headers = serving(*servers)
    await tell(place, wanted)
    return f"http://127.0.0.1:{place.port}{path}", headers


async def tell(place: Place, wanted: GatewayTable) -> None:
    gateway = place.dataplane()
    await gateway.start()
    await gateway.apply(wanted)


@dataclass
class Outcome:
    answered: int
    under_way: list[Failure] = field(default_factory=list)
    """Failed, and the replica died meanwhile."""
    lost: list[Failure] = field(default_factory=list)
    """Failed although nobody died between their beginning and their end."""


async def killed_under_load(
    place: Place, *, requests: int, per_s: int, kills: int, doors: bool = True
) -> Outcome:
    """One of two replicas is killed again and again, and is back at the same address half of the time in between."""
    deaths: list[tuple[float, float]] = []
    async with (
        mortal(FIRST, door=doors) as (dying, first),
        mortal(SECOND, door=doors) as (_, second),
    ):
        load = Load(*await told(place, first, second), per_s)
        async with load.running():
            for number in range(kills):
                await load.reaches(requests * (2 * number + 1) // (2 * kills))
                killed_s = time.monotonic()
                await dying.kill()
                deaths.append((killed_s, time.monotonic()))
                await load.reaches(requests * (2 * number + 2) // (2 * kills))
                await dying.start()
    outcome = Outcome(load.answered)
    for failure in load.failed:
        heard_s = _HEARD_S if failure.keeps_connection else 0.0
        died_meanwhile = any(
            failure.began_s < dead_s + heard_s and killed_s < failure.ended_s for killed_s, dead_s in deaths
        )
        (outcome.under_way if died_meanwhile else outcome.lost).append(failure)
    print(
        f"{'with' if doors else 'without'} doors: {load.answered} of {load.answered + len(load.failed)} answered, {kills} kills; "
        f"failed of those under way {len(outcome.under_way)}, of all others {len(outcome.lost)}"
    )
    return outcome


@pytest.mark.proof
@pytest.mark.timeout(600)
async def test_thousands_of_requests_and_many_kills(place: Place) -> None:
    with_doors = await killed_under_load(place, requests=4_200, per_s=60, kills=30)
    # Doors that did not try their replica lost one for each death.
    assert with_doors.lost == []
    assert with_doors.answered >= 4_000
    # What is under way when a process dies is lost with it, whatever is in front of it; how much that is without doors, to compare.
    without = await killed_under_load(place, requests=1_400, per_s=60, kills=10, doors=False)
    assert without.lost == []


async def test_a_closed_port_takes_nothing_and_what_began_goes_on(place: Place) -> None:
    """A server that was asked to end: a stream of it is open, and yet no request may be given to it."""
    async with (
        mortal(FIRST) as (leaving, first),
        mortal(SECOND) as (_, second),
        aiohttp.ClientSession() as session,
    ):
        wanted, path, headers = serving(first)
        await tell(place, wanted)
        url = f"http://127.0.0.1:{place.port}{path}"
        async with session.post(f"{url}/stream", data=LARGE, headers=headers) as answer:
            await answer.content.readline()
            await leaving.take_no_more()
            routes = {name: replace(route, servers=(first, second)) for name, route in wanted.routes.items()}
            await tell(place, replace(wanted, routes=routes))
            for body in (b"a prompt", LARGE) * 2:
                async with session.post(f"{url}/v1/x", data=body, headers=headers) as other:
                    assert other.status == 200
            assert await answer.text() == f"{len(LARGE)}\n" * (PIECES - 1)


async def test_a_full_queue_is_left_for_another_replica(place: Place) -> None:
    """It listens and accepts nobody any more: as without a door, its gateway's patience is that of a connection."""
    replica_id, port = ids.new_replica_id(), free_port()
    with contextlib.ExitStack() as held:
        full = held.enter_context(socket.socket())
        full.bind((FIRST, port))
        full.listen(0)
        async with (
            door_of(replica_id, SIGNS, FIRST, port) as door,
            mortal(SECOND) as (_, second),
            aiohttp.ClientSession() as session,
        ):
            for _ in range(8):
                waiting = held.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((FIRST, port))
            url, headers = await told(place, Server(replica_id, FIRST, door, has_door=True), second)
            for body in (b"a prompt", LARGE):
                began_s = time.monotonic()
                async with session.post(f"{url}/v1/x", data=body, headers=headers) as answer:
                    assert answer.status == 200
                assert time.monotonic() - began_s < 8 * CONNECT_TIMEOUT_S, "not as long as a request may take"


async def test_the_only_replica_starts_again(place: Place) -> None:
    """What comes while it is away waits for it, as it does without a door."""
    async with (
        mortal(FIRST) as (dying, first),
        aiohttp.ClientSession() as session,
    ):
        url, headers = await told(place, first)
        await dying.kill()
        asking = asyncio.create_task(session.post(f"{url}/v1/x", data=LARGE, headers=headers))
        await asyncio.sleep(0.2)
        assert not asking.done()
        await dying.start()
        async with await asking as answer:
            assert answer.status == 200
