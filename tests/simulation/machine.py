"""The machine and its engine, with everything that an engine does to its clients."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from moorage.engines.base import Image, ImageRequest, ObservedReplica, PullProgress, ReplicaPhase, ReplicaSpec
from moorage.engines.remote.machine import Machine as RemoteMachine
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine
from moorage.engines.simulated_machine import LOOPBACK, SimulatedReplica
from moorage.entrypoints.fleet import Fleet
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId, InstallationId, ReplicaId
from tests.simulation.faults import Faults
from tests.simulation.loop import Process

IMAGES = {
    "local/chat:latest": SimulatedImage(exposed_ports=(8000,), listens_after_s=0.5),
    "local/slow:latest": SimulatedImage(exposed_ports=(8000,), listens_after_s=45.0),
    "local/stubborn:latest": SimulatedImage(exposed_ports=(8000,), ends_on_request=False),
    "local/mortal:latest": SimulatedImage(exposed_ports=(8000,), exits_after_s=2900.0, exit_code=1),
    "local/crash:latest": SimulatedImage(exits_after_s=1.0, exit_code=3),
    "local/deaf:latest": SimulatedImage(listens=False),
}

ResultT = TypeVar("ResultT")
_CHANGING = ("start", "stop", "remove")


class Machine(SimulatedMachine):
    def __init__(self, clock: Clock, name: str = "simulated", address: str = LOOPBACK) -> None:
        super().__init__(
            *(clock, dict(IMAGES), name, address),
            engine_identity=f"engine of {name}",
            cpu_millis=4000,
            memory_bytes=8 * 2**30,
        )
        self.is_off = False
        self.is_dark = False
        """No gateway reaches it."""
        self.spoken_to: list[tuple[float, str]] = []
        """How many seconds after it was given up, by whom."""
        self.given_up_at_s: float | None = None

    def running(self) -> list[SimulatedReplica]:
        now = self.clock.now()
        return [one for one in self.replicas.values() if one.phase(now) is ReplicaPhase.RUNNING]

    def answers_at(self, port: int) -> SimulatedReplica | None:
        """Whoever takes connections there now."""
        for one in self.running():
            assert one.started_at is not None, "it runs"
            age_s = (self.clock.now() - one.started_at).total_seconds()
            if one.spec.host_port == port and one.image.listens and age_s >= one.image.listens_after_s:
                return one
        return None

    def ran_ago_s(self, container_id: str) -> float:
        """Since when no process of a container has run, also of those that were removed since."""
        now = self.clock.now()
        there = [(now, one) for one in self.replicas.values()]
        ends = [
            min(until, one.ends_at or until)
            for until, one in (*there, *self.removals)
            if one.spec.container_id == container_id and one.started_at is not None
        ]
        return (now - max(ends)).total_seconds() if ends else float("inf")

    def end(self, replica: SimulatedReplica, exit_code: int = 1) -> None:
        self.put(replace(replica, ends_at=self.clock.now(), exit_code=exit_code))

    def look_again(self) -> None:
        """Time was skipped: whoever waits for the end of a replica has to reckon anew."""
        self._announce()

    def power_off(self) -> None:
        """What ran there has ended when it is on again, and is still named by its engine."""
        for one in self.running():
            self.end(one, exit_code=255)
        self.is_off = self.is_dark = True
        self.cut_off()

    def power_on(self) -> None:
        self.is_off = self.is_dark = False
        self.come_back()

    def wipe(self) -> None:
        for one in list(self.replicas.values()):
            self.drop(one)


@dataclass
class Watch:
    """Told of every call that changes something on the engine: when it is made, and when it takes effect."""

    acts: Callable[[Process, str, str], None] = lambda process, name, of: None
    takes_effect: Callable[[Process, str, str], None] = lambda process, name, of: None


@dataclass
class SimulatedFleet(Fleet):
    """Machines that joined, as one controller sees them; but for the protocol that it speaks with their node roles."""

    engine_at: Callable[[str], "SimulatedClient"]
    """By the machine's address."""

    def engine_of(self, name: str, machine: RemoteMachine) -> "SimulatedClient":
        return self.engine_at(machine.address)


class SimulatedClient(SimulatedEngine):
    """The engine as one process sees it."""

    def __init__(
        self,
        machine: Machine,
        installation_id: InstallationId,
        process: Process,
        faults: Faults,
        chance: random.Random,
        watch: Watch,
    ) -> None:
        super().__init__(machine, installation_id)
        self.machine = machine
        self._process = process
        self._faults = faults
        self._chance = chance
        self._watch = watch
        self._earlier: dict[str, Any] = {}
        self.under_way = 0
        """Calls that were not answered yet."""

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        inner = super().ensure_image
        return await self._call("ensure_image", request.reference, lambda: inner(request, on_progress))

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        inner = super().start
        return await self._call("start", spec.replica_id, lambda: inner(spec))

    async def stop(self, engine_id: str, grace_s: float) -> None:
        inner = super().stop
        await self._call("stop", engine_id, lambda: inner(engine_id, grace_s))

    async def remove(self, engine_id: str) -> None:
        inner = super().remove
        await self._call("remove", engine_id, lambda: inner(engine_id))

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        inner = super().inspect
        return await self._look("inspect", replica_id, lambda: inner(replica_id))

    async def list_replicas(self) -> list[ObservedReplica]:
        return await self._look("list", "", super().list_replicas)

    def watch(self) -> AsyncIterator[ContainerId]:
        return self._until_it_breaks(super().watch())

    async def _until_it_breaks(self, words: AsyncIterator[ContainerId]) -> AsyncIterator[ContainerId]:
        async for container_id in words:
            if self._faults.happens(self._faults.rates.engine_words_lost):
                self._faults.story.count("engine words lost")
                self._faults.story.tell(self._process.name, f"engine: a word about {container_id} is lost")
                raise EngineError("the stream of the engine's words broke")
            yield container_id

    async def _look(self, name: str, of: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        found = await self._call(name, of, work)
        key = f"{name} {of}"
        earlier = self._earlier.get(key, found)
        self._earlier[key] = found
        if self._faults.happens(self._faults.rates.engine_stale):
            self._faults.story.count("engine answer stale")
            return earlier  # type: ignore[no-any-return]
        return found

    async def _call(self, name: str, of: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        self.under_way += 1
        if (since_s := self.machine.given_up_at_s) is not None:
            self.machine.spoken_to.append(
                (self._clock.monotonic() - since_s, f"{self._process.name} calls {name} {of}")
            )
        try:
            return await self._answer(name, of, work)
        finally:
            self.under_way -= 1

    async def _answer(self, name: str, of: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        faults, rates = self._faults, self._faults.rates
        if name in _CHANGING:
            self._watch.acts(self._process, name, of)
        slow = name == "start" and faults.slow_starts > 0
        faults.slow_starts -= slow
        takes_s = 0.0
        if slow or faults.happens(rates.engine_slow):
            faults.story.count("engine slow")
            takes_s = self._chance.uniform(1.0, 60.0)
        # One wait: of whoever is stopped during it, the call has taken effect before they do anything else.
        await self._clock.sleep(takes_s + self._chance.choice((0.001, 0.004, 0.02, 0.3)))
        await self._perhaps_die(name, of, "before")
        if faults.happens(rates.engine_fails):
            faults.story.count("engine fails")
            faults.story.tell(self._process.name, f"engine: {name} {of} fails")
            raise EngineError(f"{name} {of}: the engine failed")
        if name in _CHANGING:
            self._watch.takes_effect(self._process, name, of)
        result = await work()
        await self._perhaps_die(name, of, "after")
        await self._clock.sleep(0.001)
        if faults.happens(rates.engine_reply_lost):
            faults.story.count("engine reply lost")
            faults.story.tell(self._process.name, f"engine: {name} {of} is done, the reply lost")
            raise EngineError(f"{name} {of}: the reply was lost")
        return result

    async def _perhaps_die(self, name: str, of: str, when: str) -> None:
        if self._faults.dies(self._faults.rates.crash_at_engine):
            self._faults.story.count(f"crash {when} engine call")
            self._faults.story.tell(self._process.name, f"dies {when} {name} {of}")
            self._faults.crash(self._process)
            await asyncio.Future()
