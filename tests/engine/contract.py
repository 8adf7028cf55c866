"""What every engine must do, in one suite: subclass `EngineContract` and give it a `world` fixture.

A behaviour ("serves", "exits", …) is what a replica does; each world says how its engine expresses it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from moorage.engines.base import (
    CacheSpec,
    Engine,
    ImageRequest,
    ListeningSocket,
    LogChunk,
    LogStream,
    ObservedReplica,
    PullProgress,
    ReplicaPhase,
    ReplicaSpec,
)
from moorage.engines.diagnosis import Destination, NetworkQuestions, Outcome
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import (
    ContainerId,
    new_container_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)

MEBIBYTE = 1024 * 1024
QUESTIONS = NetworkQuestions(
    names=("moorage.test",),
    outbound=(Destination("127.0.0.1", 9),),
    forbidden=(Destination("169.254.169.254", 80),),
)


@dataclass(frozen=True)
class Traits:
    """In what engines may differ."""

    allocates_ports: bool = True
    """Moorage chooses a port of the machine; otherwise the engine gives an address."""
    tells_streams_apart: bool = True
    asks_from_inside: bool = True
    """Processes of ours can ask from inside a replica's network."""
    names_are_shared: bool = True
    """Two installations could give the same name to something."""
    has_doors: bool = False
    """What is at a replica's address proves whose it is; the door has a port of its own."""
    keeps_caches: bool = True
    overhead_bytes: int = 0
    """What whatever a replica runs in takes of its memory."""
    pins_to: str = "sha256:"
    """How what an image is pinned to begins, or what is in it."""


class World(Protocol):
    traits: Traits
    unknown_remote_image: str
    replicas_at: str
    """The address at which replicas are reached from here, or how it begins."""

    @property
    def engine(self) -> Engine: ...

    @property
    def other_engine(self) -> Engine:
        """Of another installation, on the same machine; not prepared yet."""
        ...

    def image(self, behaviour: str) -> ImageRequest: ...

    def command(self, behaviour: str) -> tuple[str, ...] | None: ...

    def free_port(self) -> int | None: ...

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass until it holds; fails at a deadline."""
        ...


@dataclass
class Recorder:
    progress: list[PullProgress] = field(default_factory=list)

    def __call__(self, progress: PullProgress) -> None:
        self.progress.append(progress)


async def spec_of(world: World, behaviour: str) -> ReplicaSpec:
    image = await world.engine.ensure_image(world.image(behaviour), Recorder())
    return ReplicaSpec(
        replica_id=new_replica_id(),
        container_id=new_container_id(),
        project_id=new_project_id(),
        organization_id=new_organization_id(),
        slot=2,
        generation=7,
        image=image.engine_ref,
        command=world.command(behaviour),
        environment={"GREETING": "canary-value-4711"},
        port=8000,
        host_port=world.free_port(),
        vcpu_millis=500,
        memory_bytes=32 * MEBIBYTE,
        disk_bytes=1024 * MEBIBYTE,
    )


async def start(world: World, spec: ReplicaSpec) -> ObservedReplica:
    """Until its process has begun. What an engine cannot say at once it says later, with the same code and sentence."""
    observed = await world.engine.start(spec)

    async def is_decided() -> bool:
        nonlocal observed
        if observed.failure is None and observed.phase in (ReplicaPhase.WAITING, ReplicaPhase.PULLING):
            now = await world.engine.inspect(spec.replica_id)
            assert now is not None
            observed = now
            return False
        return True

    await world.until(is_decided)
    if observed.phase is not ReplicaPhase.EXITED and observed.failure is not None:
        raise StartError(observed.failure.message, code=observed.failure.code)
    return observed


async def until_exited(world: World, spec: ReplicaSpec) -> ObservedReplica:
    async def has_exited() -> bool:
        observed = await world.engine.inspect(spec.replica_id)
        return observed is not None and observed.phase is ReplicaPhase.EXITED

    await world.until(has_exited)
    observed = await world.engine.inspect(spec.replica_id)
    assert observed is not None
    return observed


async def until_done(world: World, task: "asyncio.Future[Any]") -> None:
    async def is_done() -> bool:
        return task.done()

    try:
        await world.until(is_done)
    finally:
        task.cancel()


async def logs_of(world: World, engine_id: str, since_ns: int = 0) -> list[LogChunk]:
    async def collect() -> list[LogChunk]:
        return [chunk async for chunks in world.engine.logs(engine_id, since_ns) for chunk in chunks]

    task = asyncio.create_task(collect())
    await until_done(world, task)
    return task.result()


class EngineContract:
    async def test_life_of_a_replica(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        assert started.phase is ReplicaPhase.RUNNING
        assert (started.replica_id, started.container_id) == (spec.replica_id, spec.container_id)
        assert (started.slot, started.generation) == (2, 7)
        assert started.host is not None
        assert started.host.startswith(world.replicas_at)
        assert started.has_door == world.traits.has_doors
        if not started.has_door:
            assert started.host_port == (spec.host_port if world.traits.allocates_ports else spec.port)
        assert started.started_at is not None
        assert started.started_at.tzinfo is not None
        assert (started.ended_at, started.exit_code, started.out_of_memory) == (None, None, False)
        assert await world.engine.inspect(spec.replica_id) == started
        assert await world.engine.list_replicas() == [started]

        await world.engine.stop(started.engine_id, grace_s=2)
        stopped = await world.engine.inspect(spec.replica_id)
        assert stopped is not None
        assert stopped.phase is ReplicaPhase.EXITED
        assert stopped.exit_code is not None
        assert stopped.ended_at is not None
        assert stopped.ended_at >= started.started_at
        assert stopped.out_of_memory is False

        await world.engine.remove(started.engine_id)
        assert await world.engine.inspect(spec.replica_id) is None
        assert await world.engine.list_replicas() == []

    async def test_start_twice_adopts(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        first = await start(world, spec)
        second = await start(world, spec)
        assert second == first
        assert len(await world.engine.list_replicas()) == 1

    async def test_concurrent_starts_make_one(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        results = await asyncio.gather(*(start(world, spec) for _ in range(4)))
        assert len({result.engine_id for result in results}) == 1
        assert len(await world.engine.list_replicas()) == 1

    async def test_start_after_exit_does_not_start_again(self, world: World) -> None:
        spec = await spec_of(world, "exits")
        await start(world, spec)
        exited = await until_exited(world, spec)
        assert await start(world, spec) == exited

    async def test_exit_code(self, world: World) -> None:
        spec = await spec_of(world, "exits")
        await start(world, spec)
        exited = await until_exited(world, spec)
        assert (exited.exit_code, exited.out_of_memory) == (3, False)
        assert exited.ended_at is not None

    async def test_out_of_memory(self, world: World) -> None:
        spec = await spec_of(world, "runs_out_of_memory")
        await start(world, spec)
        exited = await until_exited(world, spec)
        assert (exited.exit_code, exited.out_of_memory) == (137, True)

    async def test_stop_kills_what_does_not_end(self, world: World) -> None:
        spec = await spec_of(world, "ignores_stop")
        started = await start(world, spec)
        stop = asyncio.create_task(world.engine.stop(started.engine_id, grace_s=1))
        await until_done(world, stop)
        stopped = await world.engine.inspect(spec.replica_id)
        assert stopped is not None
        assert (stopped.phase, stopped.exit_code) == (ReplicaPhase.EXITED, 137)

    async def test_stop_and_remove_are_idempotent(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        for _ in range(2):
            await world.engine.stop(started.engine_id, grace_s=2)
        for _ in range(2):
            await world.engine.remove(started.engine_id)
        await world.engine.stop(started.engine_id, grace_s=2)

    async def test_stop_and_remove_do_not_take_names(self, world: World) -> None:
        """A successor of the same name must be safe from whoever still means its predecessor."""
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        await world.engine.stop(spec.replica_id, grace_s=1)
        await world.engine.remove(spec.replica_id)
        assert await world.engine.inspect(spec.replica_id) == started

    async def test_remove_of_a_running_replica(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        await world.engine.remove(started.engine_id)
        assert await world.engine.inspect(spec.replica_id) is None

    async def test_a_cache_outlives_the_replicas_of_its_container(self, world: World) -> None:
        if not world.traits.keeps_caches:
            pytest.skip("this engine keeps no caches")
        spec = replace(await spec_of(world, "serves"), cache=CacheSpec(MEBIBYTE))
        started = await start(world, spec)
        (held,) = await world.engine.caches()
        assert (held.container_id, held.replica_id, held.in_use) == (spec.container_id, None, True)
        assert not await world.engine.remove_cache(spec.container_id, None)
        assert await world.other_engine.caches() == []
        assert await world.other_engine.remove_cache(spec.container_id, None)

        await world.engine.remove(started.engine_id)
        (held,) = await world.engine.caches()
        assert not held.in_use
        assert await world.engine.trim_cache(spec.container_id, None, MEBIBYTE) == held
        for _ in range(2):
            assert await world.engine.remove_cache(spec.container_id, None)
        assert await world.engine.caches() == []
        assert await world.engine.trim_cache(spec.container_id, None, MEBIBYTE) is None

    async def test_a_cache_that_is_not_kept_ends_with_its_replica(self, world: World) -> None:
        if not world.traits.keeps_caches:
            pytest.skip("this engine keeps no caches")
        spec = replace(await spec_of(world, "serves"), cache=CacheSpec(MEBIBYTE, kept=False))
        started = await start(world, spec)
        assert [one.replica_id for one in await world.engine.caches()] == [spec.replica_id]
        await world.engine.remove(started.engine_id)
        assert await world.engine.caches() == []

    async def test_other_installation_sees_and_touches_nothing(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        assert await world.other_engine.inspect(spec.replica_id) is None
        assert await world.other_engine.list_replicas() == []
        assert await world.other_engine.listening_sockets(started.engine_id) == ()
        await world.other_engine.stop(started.engine_id, grace_s=0)
        await world.other_engine.remove(started.engine_id)
        if world.traits.names_are_shared:
            with pytest.raises(EngineError):
                await world.other_engine.start(spec)
        with pytest.raises(EngineError):
            async for _ in world.other_engine.logs(started.engine_id, 0):
                pass
        assert await world.engine.inspect(spec.replica_id) == started

    async def test_list_is_complete(self, world: World) -> None:
        specs = [
            await spec_of(world, "serves"),
            await spec_of(world, "exits"),
            await spec_of(world, "prints"),
        ]
        for spec in specs:
            await start(world, spec)
        for spec in specs[1:]:
            await until_exited(world, spec)
        listed = await world.engine.list_replicas()
        assert [one.replica_id for one in listed] == sorted(spec.replica_id for spec in specs)
        assert listed == [await world.engine.inspect(one.replica_id) for one in listed]

    async def test_missing_command(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        spec = replace(spec, command=("serve-the-model", "--fast"))
        for _ in range(2):  # the second attempt adopts what the first one created, and says the same
            with pytest.raises(StartError, match="serve-the-model") as caught:
                await start(world, spec)
            assert caught.value.code == "start_command_not_found"
            assert "canary" not in str(caught.value)
        (left,) = await world.engine.list_replicas()
        assert (left.phase, left.started_at, left.exit_code) == (ReplicaPhase.CREATED, None, None)
        await world.engine.remove(left.engine_id)
        assert await world.engine.list_replicas() == []

    async def test_port_taken(self, world: World) -> None:
        if not world.traits.allocates_ports:
            pytest.skip("the engine gives addresses")
        first = await spec_of(world, "serves")
        second = replace(await spec_of(world, "serves"), host_port=first.host_port)
        await start(world, first)
        with pytest.raises(EngineError) as caught:
            await start(world, second)
        assert caught.value.code == "port_taken"

    async def test_local_image(self, world: World) -> None:
        image = await world.engine.ensure_image(world.image("serves"), Recorder())
        assert world.traits.pins_to in image.engine_ref
        assert image.exposed_ports == (8000,)
        assert image.size_bytes > 0

    async def test_unknown_local_image(self, world: World) -> None:
        with pytest.raises(ImageError) as caught:
            await world.engine.ensure_image(ImageRequest("local/absent:1", local=True), Recorder())
        assert caught.value.code == "image_not_found"

    async def test_local_means_local(self, world: World) -> None:
        reference = world.image("serves").reference
        for refused in (
            ImageRequest(reference.removeprefix("local/"), local=True),
            ImageRequest(
                (await world.engine.ensure_image(world.image("serves"), Recorder())).engine_ref, local=True
            ),
            ImageRequest(reference, local=False),
        ):
            with pytest.raises(ImageError) as caught:
                await world.engine.ensure_image(refused, Recorder())
            assert caught.value.code == "image_not_found"

    async def test_unknown_remote_image(self, world: World) -> None:
        with pytest.raises(ImageError) as caught:
            await world.engine.ensure_image(ImageRequest(world.unknown_remote_image), Recorder())
        assert caught.value.code == "image_not_found"

    async def test_logs_are_complete_and_in_order(self, world: World) -> None:
        spec = await spec_of(world, "prints")
        started = await start(world, spec)
        live = await logs_of(world, started.engine_id)  # from the start, until its process ends
        # Each stream in its order: they are two pipes, and who reads them may come to the second one first.
        said = {stream: [chunk.data for chunk in live if chunk.stream is stream] for stream in LogStream}
        if world.traits.tells_streams_apart:
            assert said == {LogStream.STDOUT: [b"one", b"three"], LogStream.STDERR: [b"two"]}
        else:
            assert said == {LogStream.STDOUT: [b"one", b"two", b"three"], LogStream.STDERR: []}
        assert all(chunk.ends_line for chunk in live)
        assert [chunk.time_ns for chunk in live] == sorted(chunk.time_ns for chunk in live)
        assert await logs_of(world, started.engine_id) == live, "read again after the end"

    async def test_logs_resume_inclusively(self, world: World) -> None:
        spec = await spec_of(world, "prints")
        started = await start(world, spec)
        lines = await logs_of(world, started.engine_id)
        assert await logs_of(world, started.engine_id, lines[1].time_ns) == lines[1:]
        assert await logs_of(world, started.engine_id, lines[1].time_ns + 1) == lines[2:]

    async def test_logs_begin_near_their_end_if_asked(self, world: World) -> None:
        started = await start(world, await spec_of(world, "prints"))
        lines = await logs_of(world, started.engine_id)
        tail = world.engine.logs(started.engine_id, 0, 1)
        last = [chunk async for chunks in tail for chunk in chunks]
        assert last == lines[-1:]

    async def test_logs_of_a_replica_that_is_removed_do_not_just_end(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        follower = asyncio.create_task(logs_of(world, started.engine_id))
        await world.engine.remove(started.engine_id)
        with pytest.raises(EngineError):
            await follower

    async def test_watch_tells_of_exit_and_removal(self, world: World) -> None:
        spec = await spec_of(world, "exits")
        changes = world.engine.watch()
        started = await start(world, spec)
        await until_exited(world, spec)
        await self._until_told(world, changes, spec)
        await world.engine.remove(started.engine_id)
        await self._until_told(world, changes, spec)

    async def test_watch_is_deaf_to_other_installations(self, world: World) -> None:
        deaf = world.other_engine.watch()
        spec = await spec_of(world, "exits")
        other_spec = await spec_of(world, "exits")
        started = await start(world, spec)
        await until_exited(world, spec)
        await world.engine.remove(started.engine_id)
        await world.other_engine.prepare()
        await world.other_engine.ensure_image(world.image("exits"), Recorder())
        await world.other_engine.start(other_spec)
        # Were the first installation's changes heard, they would come first.
        await self._until_told(world, deaf, other_spec)

    async def test_listening_sockets(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)

        async def listens() -> bool:
            return len(await world.engine.listening_sockets(started.engine_id)) > 0

        await world.until(listens)
        (found,) = await world.engine.listening_sockets(started.engine_id)
        assert found in (ListeningSocket("0.0.0.0", 8000), ListeningSocket("::", 8000))
        await world.engine.stop(started.engine_id, grace_s=2)
        assert await world.engine.listening_sockets(started.engine_id) == ()

    async def test_diagnose_network(self, world: World) -> None:
        if not world.traits.asks_from_inside:
            pytest.skip("nobody asks from inside")
        started = await start(world, await spec_of(world, "serves"))
        found = await world.engine.diagnose_network(started.engine_id, QUESTIONS)
        assert [one.name for one in found.names] == ["moorage.test"]
        assert all((one.failure is None) == bool(one.addresses) for one in found.names)
        assert found.resolvers
        assert [(one.address, one.port) for one in found.outbound] == [("127.0.0.1", 9)]
        assert len(found.forbidden) >= 1
        assert {one.outcome for one in found.forbidden} <= {Outcome.TIMED_OUT, Outcome.UNREACHABLE}
        with pytest.raises(EngineError) as foreign:
            await world.other_engine.diagnose_network(started.engine_id, QUESTIONS)
        await world.engine.stop(started.engine_id, grace_s=2)
        with pytest.raises(EngineError) as ended:
            await world.engine.diagnose_network(started.engine_id, QUESTIONS)
        assert foreign.value.code == ended.value.code == "replica_gone"

    async def test_last_lines(self, world: World) -> None:
        spec = await spec_of(world, "prints")
        started = await start(world, spec)
        await until_exited(world, spec)
        assert await world.engine.last_lines(started.engine_id, 2) == ("two", "three")
        assert await world.engine.last_lines(started.engine_id, 9) == ("one", "two", "three")
        assert await world.other_engine.last_lines(started.engine_id, 9) == ()
        assert not await world.engine.process_limit_reached(started.engine_id)
        await world.engine.remove(started.engine_id)
        assert await world.engine.last_lines(started.engine_id, 9) == ()

    async def test_usage(self, world: World) -> None:
        """What the two of them do is known: one computes as much as it may, the other holds 16 MiB."""
        busy = await start(world, await spec_of(world, "computes"))
        holding = await start(world, await spec_of(world, "holds_memory"))
        engine_ids = {busy.engine_id, holding.engine_id}
        first = await world.engine.usage(engine_ids)
        latest = first

        async def known() -> bool:
            nonlocal latest
            latest = await world.engine.usage(engine_ids)
            computed_s = latest[busy.engine_id].cpu_time_s - first[busy.engine_id].cpu_time_s
            return computed_s > 0.3 and latest[holding.engine_id].memory_bytes >= 16 * MEBIBYTE

        await world.until(known)
        elapsed_s = latest[busy.engine_id].read_at_s - first[busy.engine_id].read_at_s
        computed_s = latest[busy.engine_id].cpu_time_s - first[busy.engine_id].cpu_time_s
        # Half a processor is its limit; a period of the limit may be used up at both ends.
        assert computed_s <= 0.5 * elapsed_s + 0.1
        overhead_bytes = world.traits.overhead_bytes
        assert latest[holding.engine_id].memory_bytes < 22 * MEBIBYTE + overhead_bytes
        assert latest[busy.engine_id].memory_bytes < 6 * MEBIBYTE + overhead_bytes

    async def test_usage_of_those_that_are_not_there(self, world: World) -> None:
        spec = await spec_of(world, "serves")
        started = await start(world, spec)
        both = {started.engine_id, spec.replica_id, "absent"}
        assert (await world.engine.usage(both)).keys() == {started.engine_id}
        assert await world.other_engine.usage(both) == {}
        await world.engine.stop(started.engine_id, grace_s=2)
        assert await world.engine.usage(both) == {}
        assert await world.engine.gpu_usage(()) == {}
        assert await world.engine.gpu_usage({"GPU-00000000-0000-0000-0000-000000000000"}) == {}
        assert await world.engine.gpu_problems(()) == {}

    async def test_capacity(self, world: World) -> None:
        (node,) = await world.engine.capacity()
        assert node.cpu_millis >= 1000
        assert node.memory_bytes > 256 * MEBIBYTE
        assert node.architecture in ("amd64", "arm64")
        assert node.engine_identity, "an engine that lost its data must look like another one"

    async def test_prepare_may_be_repeated(self, world: World) -> None:
        await world.engine.prepare()
        await world.engine.prepare()

    @staticmethod
    async def _until_told(world: World, changes: AsyncIterator[ContainerId], spec: ReplicaSpec) -> None:
        task = asyncio.ensure_future(anext(changes))
        await until_done(world, task)
        assert task.result() == spec.container_id
