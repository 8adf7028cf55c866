"""The simulated engine passes the contract, and is exact about time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from moorage.engines.base import ImageRequest, LogStream, PullProgress, ReplicaPhase
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine, SimulatedOutput
from moorage.kit.clock import VirtualClock
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import new_installation_id
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.engine.contract import MEBIBYTE, EngineContract, Recorder, Traits, spec_of, until_done

_PRINTS = (
    SimulatedOutput(0.0, LogStream.STDOUT, b"one"),
    SimulatedOutput(0.1, LogStream.STDERR, b"two"),
    SimulatedOutput(0.2, LogStream.STDOUT, b"three"),
)
_COMMANDS = frozenset({"serve"})

IMAGES = {
    "local/serves:test": SimulatedImage(exposed_ports=(8000,), commands=_COMMANDS),
    "local/exits:test": SimulatedImage(exits_after_s=0.3, exit_code=3),
    "local/prints:test": SimulatedImage(exits_after_s=0.3, output=_PRINTS),
    "local/runs_out_of_memory:test": SimulatedImage(exits_after_s=0.2, out_of_memory=True),
    "local/computes:test": SimulatedImage(cpu_millis=500),
    "local/holds_memory:test": SimulatedImage(memory_bytes=17 * MEBIBYTE),
    "local/ignores_stop:test": SimulatedImage(ends_on_request=False),
    "local/slow:test": SimulatedImage(listens_after_s=60, exits_after_s=3600),
    "registry.example/private:1": SimulatedImage(
        pull_s=90, size_bytes=500, credentials=RegistryCredentials("ann", "secret")
    ),
    "registry.example/foreign:1": SimulatedImage(architecture="riscv64"),
}


class SimulatedWorld:
    replicas_at = "127.0.0.1"
    traits = Traits()
    unknown_remote_image = "registry.example/absent:1"

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.machine = SimulatedMachine(self.clock, IMAGES)
        self.engine = SimulatedEngine(self.machine, new_installation_id())
        self.other_engine = SimulatedEngine(self.machine, new_installation_id())
        self._port = 20000

    def image(self, behaviour: str) -> ImageRequest:
        return ImageRequest(f"local/{behaviour}:test", local=True)

    def command(self, behaviour: str) -> tuple[str, ...] | None:
        return None

    def free_port(self) -> int:
        self._port += 1
        return self._port

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(200):
            if await condition():
                return
            await self.clock.advance(0.05)
        pytest.fail("the condition did not come true within 10 virtual seconds")


@pytest.fixture
def world() -> SimulatedWorld:
    return SimulatedWorld()


class TestSimulatedContract(EngineContract):
    pass


async def test_state_follows_the_clock_alone(world: SimulatedWorld) -> None:
    spec = await spec_of(world, "slow")
    started = await world.engine.start(spec)
    assert await world.engine.listening_sockets(started.engine_id) == ()
    await world.clock.advance(60)
    assert len(await world.engine.listening_sockets(started.engine_id)) == 1
    await world.clock.advance(3539.9)
    assert (await world.engine.list_replicas())[0].phase is ReplicaPhase.RUNNING
    await world.clock.advance(0.1)
    (exited,) = await world.engine.list_replicas()
    assert exited.phase is ReplicaPhase.EXITED
    assert started.started_at is not None
    assert exited.ended_at == started.started_at + timedelta(hours=1)


async def test_pull_takes_its_time_and_needs_its_credentials(world: SimulatedWorld) -> None:
    request = ImageRequest("registry.example/private:1", RegistryCredentials("ann", "secret"))
    recorder = Recorder()
    pull = asyncio.create_task(world.engine.ensure_image(request, recorder))
    await world.clock.advance(0)  # lets the pull begin
    await world.clock.advance(89)
    assert not pull.done()
    await world.clock.advance(1)
    assert pull.result().digest is not None
    assert recorder.progress == [PullProgress(0, 500), PullProgress(500, 500)]
    for credentials in (None, RegistryCredentials("ann", "wrong")):
        with pytest.raises(ImageError) as caught:
            await world.engine.ensure_image(replace(request, credentials=credentials), Recorder())
        assert caught.value.code == "registry_auth_failed"


async def test_architecture(world: SimulatedWorld) -> None:
    with pytest.raises(ImageError) as caught:
        await world.engine.ensure_image(ImageRequest("registry.example/foreign:1"), Recorder())
    assert caught.value.code == "image_architecture_mismatch"


async def test_a_machine_that_is_cut_off_answers_nobody_and_its_replicas_go_on(world: SimulatedWorld) -> None:
    spec = await spec_of(world, "serves")
    started = await world.engine.start(spec)
    watching = asyncio.ensure_future(anext(world.engine.watch()))
    reading = asyncio.ensure_future(anext(aiter(world.engine.logs(started.engine_id, 0))))
    await asyncio.sleep(0)
    world.machine.cut_off()
    for call in (
        world.engine.list_replicas(),
        world.engine.inspect(spec.replica_id),
        world.engine.stop(started.engine_id, 0),
        world.engine.capacity(),
        world.engine.usage([started.engine_id]),
        watching,
        reading,
    ):
        with pytest.raises(EngineError):
            await call
    world.machine.come_back()
    assert [one.phase for one in await world.engine.list_replicas()] == [ReplicaPhase.RUNNING]


async def test_a_slow_machine_answers_late(world: SimulatedWorld) -> None:
    world.machine.answers_after_s = 3.0
    asked = asyncio.ensure_future(world.engine.list_replicas())
    await asyncio.sleep(0)
    await world.clock.advance(2.9)
    assert not asked.done()
    await world.clock.advance(0.2)
    assert await asked == []


async def test_what_is_accepted_waits_then_pulls_then_runs_and_each_is_told(world: SimulatedWorld) -> None:
    world.machine.waits_s, world.machine.fetches_s = 1, 2
    spec = await spec_of(world, "serves")
    hints = world.engine.watch()
    accepted_at = world.clock.now()
    seen = await world.engine.start(spec)
    assert (seen.phase, seen.host, seen.host_port) == (ReplicaPhase.WAITING, None, None)
    assert await anext(hints) == spec.container_id
    again = await world.engine.start(spec)
    assert (again.engine_id, world.machine.started_count) == (seen.engine_id, 1)
    for phase in (ReplicaPhase.PULLING, ReplicaPhase.RUNNING):
        hint = asyncio.ensure_future(anext(hints))
        await until_done(world, hint)
        assert hint.result() == spec.container_id
        now = await world.engine.inspect(spec.replica_id)
        assert now is not None
        assert now.phase is phase
    assert (now.host, now.host_port) == ("127.0.0.1", spec.host_port)
    assert now.started_at == accepted_at + timedelta(seconds=3)


async def test_why_it_cannot_start_is_seen_later_with_the_code_that_is_raised_otherwise(
    world: SimulatedWorld,
) -> None:
    spec = replace(await spec_of(world, "serves"), command=("serve-the-model",))
    with pytest.raises(StartError) as raised:
        await world.engine.start(spec)
    await world.engine.remove((await world.engine.list_replicas())[0].engine_id)
    world.machine.tells_failures_later, world.machine.waits_s = True, 5
    assert (await world.engine.start(spec)).failure is None
    await world.clock.advance(5)
    seen = await world.engine.inspect(spec.replica_id)
    assert seen is not None
    assert seen.phase is ReplicaPhase.CREATED
    assert seen.failure is not None
    assert (seen.failure.code, seen.failure.message) == (raised.value.code, raised.value.message)


async def test_a_machine_says_whether_it_takes_anything(world: SimulatedWorld) -> None:
    world.machine.schedulable = False
    [node] = await world.engine.capacity()
    assert not node.takes_replicas
