"""The machines that joined, as engines of this controller: one comes when its row does, and goes with it.

Every controller does this for itself, whether it leads or not: engines belong to a process. What it writes follows from the
machines' rows alone, so it does not matter who writes it: which machines take replicas, how many each still has, and that one
which was removed is nobody's any more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from moorage.catalog.repository import forget_engine, list_nodes
from moorage.containers.capacity_repository import replicas_by_engine
from moorage.containers.placements import RowPlacements
from moorage.containers.reconciler.doubt_repository import forget_doubts
from moorage.containers.reconciler.repository import containers_on
from moorage.containers.repository import mark_due
from moorage.engines.base import Engine
from moorage.engines.engines import Engines
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.machine import Machine
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener
from moorage.kit.lasting import look_for_good
from moorage.kit.settings import Settings
from moorage.machines.channels import MACHINES
from moorage.machines.intakes import note_intakes
from moorage.machines.repository import EngineMachine, list_engine_machines, note_replicas
from moorage.outbound.pulls.proxy import PullProxy
from moorage.tunnel.programs import TunnelError

log = structlog.get_logger()

LOOK_EVERY_S = 5.0


async def let_go_of(database: Database, engine: str) -> None:
    """Its machine was removed: whatever ran there is to be replaced, and nobody else would look for it."""
    async with database.transaction() as session:
        await mark_due(session, await containers_on(session, engine))
    # After that: should we end here, the machine's row is still there to be found again.
    async with database.transaction() as session:
        await forget_doubts(session, engine)
        await forget_engine(session, engine)


@dataclass
class Fleet:
    database: Database
    listener: Listener
    engines: Engines
    keyring: Keyring
    settings: Settings
    pulls: PullProxy
    clock: Clock
    close_other_ways: Callable[[], Awaitable[None]]
    """To machines, but for the tunnel. Raises `TunnelError`."""
    _changed: asyncio.Event = field(init=False)
    _made_of: dict[str, Machine] = field(init=False, default_factory=dict)
    """By the engine's name."""
    _unreadable: set[str] = field(init=False, default_factory=set)
    """Engines of machines whose credential cannot be read; told of once."""

    def __post_init__(self) -> None:
        self._changed = self.listener.subscribe(MACHINES)

    async def run(self) -> None:
        """For good."""
        await look_for_good("fleet", self.look, LOOK_EVERY_S, self._changed)

    async def look(self) -> None:
        async with self.database.reading() as session:
            machines: dict[str, EngineMachine] = {
                one.id: one for one in await list_engine_machines(session, self.keyring)
            }
            nodes = await list_nodes(session)
        for name in self._made_of.keys() - machines.keys():
            await self._take_engine(name)
        if machines.keys() <= self._made_of.keys() or await self._may_speak():
            for name, machine in machines.items():
                await self._give_engine(name, machine)
        for name in sorted({node.engine for node in nodes} - machines.keys() - self.engines.by_name().keys()):
            await let_go_of(self.database, name)
        if not machines:
            return
        async with self.database.transaction() as session:
            await note_intakes(session, [node for node in nodes if node.engine in machines])
            counts = await replicas_by_engine(session)
            await note_replicas(session, {one.name: counts.get(name, 0) for name, one in machines.items()})

    async def _may_speak(self) -> bool:
        try:
            await self.close_other_ways()
        except TunnelError as exc:
            log.error("machines_not_spoken_to", reason=exc.message)
            return False
        return True

    async def _give_engine(self, name: str, machine: EngineMachine) -> None:
        if machine.credential is None:
            # Only this machine's: where it has no engine yet it counts as silent, and what runs there is replaced.
            if name not in self._unreadable:
                self._unreadable.add(name)
                log.error("machine_credential_unreadable", machine=machine.name, engine=name)
            return
        self._unreadable.discard(name)
        wanted = Machine(
            machine.node_name,
            machine.infrastructure,
            machine.address,
            machine.port,
            machine.credential,
            verified=machine.verified,
            proven=machine.proven,
            most_cpu_millis=self.settings.largest_machine_cores * 1000,
            most_memory_bytes=self.settings.largest_machine_memory_gib * 2**30,
        )
        if self._made_of.get(name) == wanted:
            return
        await self._take_engine(name)
        self._made_of[name] = wanted
        self.engines.add(name, self.engine_of(name, wanted))
        log.info("machine_has_an_engine", machine=machine.name, engine=name)

    def engine_of(self, name: str, machine: Machine) -> Engine:
        return RemoteEngine(machine, RowPlacements(self.database, name), self.clock, self.pulls)

    async def _take_engine(self, name: str) -> None:
        if self._made_of.pop(name, None) is None:
            return
        engine = self.engines.remove(name)
        if engine is not None:
            await engine.close()
        log.info("machine_has_no_engine", engine=name)
