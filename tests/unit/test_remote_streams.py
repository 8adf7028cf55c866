"""The remote engine over a way that breaks: nothing is lost, nothing comes twice, and nobody waits for ever."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from moorage.engines.base import ImageRequest, LogChunk, LogStream
from moorage.engines.remote import connection, hints, output
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.frames import FrameKind, FrameParser
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine, SimulatedOutput
from moorage.kit.clock import VirtualClock
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import ContainerId, new_container_id, new_installation_id, new_replica_id
from moorage.kit.permission import permitted_by
from moorage.node import server as server_module
from moorage.node.hints import MOST_KEPT, KeptHints
from moorage.node.main import credential_digest
from moorage.node.server import NodeServer
from tests.unit.remote_machines import (
    CREDENTIAL,
    BreakingWay,
    engine_at,
    machine_that,
    serving,
    silence,
    streams,
)
from tests.unit.test_remote_hostile import SPEC

OUT, ERR = LogStream.STDOUT, LogStream.STDERR
# Both streams, several at the same time, and one that is behind the other.
PRINTED = tuple(
    SimulatedOutput(after_s, stream, f"line {number}".encode())
    for number, (after_s, stream) in enumerate(
        [(0.0, OUT), (0.0, OUT), (0.0, ERR), (0.0, OUT), (0.1, ERR), (0.1, ERR), (0.1, OUT), (0.2, OUT)]
    )
)
IMAGES = {
    "local/prints:1": SimulatedImage(exits_after_s=0.3, output=PRINTED),
    "local/serves:1": SimulatedImage(),
}


class OneByOne(SimulatedEngine):
    """Gives each piece of output by itself, as it comes from a slow process."""

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        async for chunks in super().logs(engine_id, since_ns, last):
            for chunk in chunks:
                yield [chunk]


class Joined:
    """A machine with a node role, and a way to it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.machine = SimulatedMachine(self.clock, IMAGES)
        self.local = OneByOne(self.machine, new_installation_id())
        self.server = NodeServer(self.local, credential_digest(CREDENTIAL), self.clock, None)

    @asynccontextmanager
    async def reached(self) -> AsyncIterator[tuple[RemoteEngine, BreakingWay]]:
        async with serving(self.server.application()) as port:
            way = BreakingWay(port)
            async with way.open() as way_port:
                engine = engine_at(way_port, infrastructure="operator")
                yield engine, way
                await engine.close()

    async def start(self, engine: RemoteEngine, image: str = "local/serves:1") -> tuple[str, ContainerId]:
        found = await engine.ensure_image(ImageRequest(image, local=True), lambda _: None)
        spec = replace(
            SPEC,
            replica_id=new_replica_id(),
            container_id=new_container_id(),
            image=found.engine_ref,
            host_port=20000 + len(self.machine.replicas) + len(self.machine.removals),
        )
        return (await engine.start(spec)).engine_id, spec.container_id


@pytest.fixture
def joined() -> Joined:
    return Joined()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (output, hints):
        monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)


def offsets(answer: bytes) -> list[int]:
    """Where to cut it: in its head, and before, in and behind each piece and each frame of it."""
    body = answer.index(b"\r\n\r\n") + 4
    ends = [at for at in range(body, len(answer)) if answer[at : at + 2] == b"\r\n"]
    near = {at + step for at in ends for step in (-3, -1, 0, 2, 4, 8)}
    return sorted(at for at in {0, 1, body // 2, body - 1, body, *near} if 0 <= at < len(answer))


@pytest.mark.long
async def test_output_that_is_cut_anywhere_is_whole(joined: Joined) -> None:
    async with joined.reached() as (engine, way):
        engine_id, _ = await joined.start(engine, "local/prints:1")
        await joined.clock.advance(1)
        whole = [
            chunk async for chunks in joined.local.logs(engine_id.partition("/")[2], 0) for chunk in chunks
        ]
        assert len(whole) == len(PRINTED)
        await engine.close()  # so that the next connection is a stream's alone
        assert [one async for chunks in engine.logs(engine_id, 0) for one in chunks] == whole
        await engine.close()
        cuts = offsets(way.passed[-1])
        for cut in cuts:
            way.cuts = [cut, cut]
            read = [one async for chunks in engine.logs(engine_id, 0) for one in chunks]
            assert read == whole, f"cut behind {cut} bytes"
            assert len(way.cuts) < 2, "it was cut, unless all had come by then also a second time"
            await engine.close()
    print(f"output was cut twice at each of {len(cuts)} places")


async def test_the_end_of_output_that_is_cut_does_not_come_twice(joined: Joined) -> None:
    async with joined.reached() as (engine, way):
        engine_id, _ = await joined.start(engine, "local/prints:1")
        await joined.clock.advance(1)
        await engine.close()
        tail = [one async for chunks in engine.logs(engine_id, 0, 3) for one in chunks]
        assert [one.data for one in tail] == [b"line 5", b"line 6", b"line 7"]
        await engine.close()
        for cut in offsets(way.passed[-1]):
            way.cuts = [cut]
            read: list[LogChunk] = []
            with contextlib.suppress(EngineError):
                async for chunks in engine.logs(engine_id, 0, 3):
                    read += chunks
            assert read == tail[: len(read)], f"cut behind {cut} bytes"
            await engine.close()


async def test_output_that_never_arrives_is_given_up(joined: Joined) -> None:
    async with joined.reached() as (engine, way):
        engine_id, _ = await joined.start(engine, "local/prints:1")
        await engine.close()
        way.cuts = [5] * 50
        with pytest.raises(EngineError) as caught:
            await anext(engine.logs(engine_id, 0))
        assert caught.value.code == connection.AWAY
        assert len(way.cuts) > 40


@pytest.mark.long
async def test_hints_that_are_cut_anywhere_come_once(joined: Joined) -> None:
    async with joined.reached() as (engine, way):
        changes = engine.watch()  # before anything was asked: everything is to be looked at
        expected = []
        for _ in range(4):
            engine_id, container_id = await joined.start(engine)
            await engine.remove(engine_id)
            expected.append(container_id)
        assert {await anext(changes) for _ in expected} == set(expected)
        await changes.aclose()
        begin = replace(joined.server.hints.position, sequence=0)
        expected = [hint.container_id for hint in joined.server.hints._kept]
        assert len(expected) >= 4
        answer = await _hints_from(engine, begin, expected, way)
        for cut in offsets(answer):
            way.cuts = [cut, cut]
            await _hints_from(engine, begin, expected, way)


async def _hints_from(
    engine: RemoteEngine, begin: object, expected: list[ContainerId], way: BreakingWay
) -> bytes:
    await engine.close()
    engine._hints_at = begin  # type: ignore[assignment]
    changes = engine.watch()
    assert [await anext(changes) for _ in expected] == expected
    await changes.aclose()
    return way.passed[-1]


async def test_after_a_gap_everything_is_looked_at_again(joined: Joined) -> None:
    async with joined.reached() as (engine, _):
        _, first = await joined.start(engine)
        engine_id, second = await joined.start(engine)
        changes = engine.watch()
        for _ in range(MOST_KEPT + 1):
            joined.server.hints.add(second)
        assert [await anext(changes), await anext(changes)] == sorted([first, second])
        await engine.remove(engine_id)
        assert await anext(changes) == second, "and from there on they are counted"
        await changes.aclose()


async def test_hints_that_the_engine_did_not_hear() -> None:
    clock = VirtualClock()
    kept = KeptHints(clock)
    begin = kept.position
    told = kept.since(begin)

    class Breaks:
        def watch(self) -> AsyncIterator[ContainerId]:
            return self._watch()

        async def _watch(self) -> AsyncIterator[ContainerId]:
            yield new_container_id()
            raise EngineError("the engine is away")

    keeping = asyncio.create_task(kept.keep(Breaks()))  # type: ignore[arg-type]
    position = await anext(told)
    assert position == kept.position
    assert position.epoch != begin.epoch  # type: ignore[union-attr]
    keeping.cancel()


async def test_a_machine_without_a_word_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(hints, "PATIENCE_S", 0.2)
    async with machine_that(silence) as port:
        engine = engine_at(port)
        async with asyncio.timeout(20):
            with pytest.raises(EngineError) as caught:
                await anext(engine.watch())
            assert caught.value.code == "engine_timeout"
            with pytest.raises(EngineError):
                await anext(engine.logs("machine-1/abc", 0))
        await engine.close()


async def test_a_machine_that_is_there_says_so(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet stream is not taken for a dead one."""
    monkeypatch.setattr(server_module, "IDLE_S", 0.02)
    async with joined.reached() as (engine, way):
        await joined.start(engine)
        await engine.close()
        waiting = asyncio.ensure_future(anext(engine.watch()))
        parser, seen = FrameParser(), 0
        async with asyncio.timeout(20):
            while seen < 3:
                await asyncio.sleep(0.01)
                passed = way.passed[-1].partition(b"\r\n\r\n")[2] if len(way.passed) > 1 else b""
                seen = passed.count(b"5\r\n\0\0\0\0\0\r\n")
        assert parser.feed(b"\0" * 5)[0].kind is FrameKind.IDLE
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_machine_that_is_off_is_away() -> None:
    async with machine_that(silence) as port:
        pass
    engine = engine_at(port)
    with pytest.raises(EngineError) as caught:
        await engine.inspect(new_replica_id())
    assert caught.value.code == connection.AWAY
    assert CREDENTIAL not in repr(caught.value.__cause__) + repr(caught.value.__context__) + str(caught.value)
    await engine.close()


async def test_a_lost_reply_is_adopted(joined: Joined) -> None:
    async with joined.reached() as (engine, way):
        found = await engine.ensure_image(ImageRequest("local/serves:1", local=True), lambda _: None)
        spec = replace(SPEC, image=found.engine_ref)
        await engine.close()
        way.cuts = [20]
        with pytest.raises(EngineError):
            await engine.start(spec)
        assert len(joined.machine.replicas) == 1
        adopted = await engine.start(spec)
        assert f"machine-1/{next(iter(joined.machine.replicas))}" == adopted.engine_id
        assert joined.machine.started_count == 1


async def test_a_former_leader_asks_nothing(joined: Joined) -> None:
    def lost() -> None:
        raise LeaseLostError("somebody else leads")

    async with joined.reached() as (engine, _):
        await engine.prepare()
        with permitted_by(lost):
            with pytest.raises(LeaseLostError):
                await engine.start(SPEC)
            with pytest.raises(LeaseLostError):
                await anext(engine.watch())
        assert joined.machine.replicas == {}


@pytest.mark.parametrize(
    "credential", ["", "wrong", CREDENTIAL + "x", CREDENTIAL[:-1], credential_digest(CREDENTIAL)]
)
async def test_a_machine_obeys_its_installation_alone(joined: Joined, credential: str) -> None:
    async with serving(joined.server.application()) as port:
        engine = engine_at(port, credential=credential)
        for call in (
            engine.prepare,
            engine.list_replicas,
            lambda: engine.start(SPEC),
            lambda: anext(engine.logs("machine-1/a", 0)),
        ):
            with pytest.raises(EngineError, match="credential"):
                await call()
        await engine.close()
    assert joined.machine.replicas == {}


@pytest.mark.parametrize(
    "reference", ["ghcr.io/acme/chat:1", "moorage-pull/../x@sha256:" + "0" * 64, "moorage-pull/" + "0" * 32]
)
async def test_a_machine_pulls_tickets_alone(joined: Joined, reference: str) -> None:
    joined.server.pulls_from = "127.0.0.1:1"
    async with serving(joined.server.application()) as port:
        engine = engine_at(port, infrastructure="operator")
        with pytest.raises(EngineError, match="status 400"):
            await engine._pulls._on_machine(ImageRequest(reference), lambda _: None)
        await engine.close()


async def test_an_endless_stream_waits_for_whoever_reads_it() -> None:
    """Hints come as fast as they are taken: the machine cannot fill our memory."""
    async with machine_that(streams(b"\0" * 5 * 50)) as port:
        engine = engine_at(port)
        waiting = asyncio.ensure_future(anext(engine.watch()))
        await asyncio.wait((waiting,), timeout=0.5)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await engine.close()
