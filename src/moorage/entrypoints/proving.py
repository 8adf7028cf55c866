"""The proofs reconciler: machines that are lent show that they have what they claim, when they join and at times that nobody knows.

Purpose: nothing runs on a machine that claims more than it has. What no replica holds is filled with numbers made from a nonce, and
the machine answers for some of them that are chosen afterwards, in less time than it would take to make them again.
Invariants: a machine is verified by a right answer alone; a wrong one, or none in time, leaves one that is being verified where it is,
and the second in a row pauses one that was trusted until the operator has looked. A machine that does not answer at all is silent, which is for
others to judge. No transaction is open while a machine works. A proof gives way to replicas: no server finds what it was given filled.
When it fails: it is tried again later; a process that dies leaves a proof that is due.
"""

import asyncio
import random
import secrets
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import structlog

from moorage.catalog.capacity import Used
from moorage.catalog.repository import list_nodes
from moorage.containers.capacity_repository import used_capacity
from moorage.engines.base import MachineKey, NodeCapacity
from moorage.engines.engines import Engines
from moorage.engines.remote.connection import AWAY, TIMED_OUT
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.proofs import GAVE_WAY, ProofAnswer, ProofFilled, ProofOrder, ProofQuestion
from moorage.engines.remote.proven import Proven
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.jobs.jobs import Jobs
from moorage.kit.settings import Settings
from moorage.machines import repository, service
from moorage.machines.channels import MACHINES
from moorage.machines.ownership import void_served
from moorage.machines.proof.rules import (
    APART,
    ITERATIONS,
    TOO_SLOW,
    Claim,
    question_for,
    tasks_for,
    why_wrong,
)
from moorage.machines.proof.values import memory_row
from moorage.machines.states import Happening, MachineState, Speaker
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

AGAIN_WITHIN = (timedelta(hours=12), timedelta(hours=36))
"""After a right answer; some time between these."""
BROKEN_OFF_OFTEN = 3
"""A machine that answers whatever else it is asked, and breaks off its proof so often in a row, has not proven what it claims: whether
it says that it gave way to a replica, or nothing."""
_AT_ONCE_OF_AN_OWNER = 4
_CHECKS_AT_ONCE = 2
_SOON_S = 5.0
_LOOK_EVERY_S = 30.0


@dataclass(frozen=True)
class _Asked:
    node: NodeCapacity
    """As the machine described itself before."""
    claim: Claim
    """What no replica holds of it."""
    held: Used
    """What replicas hold."""


@dataclass
class ProofsReconciler:
    database: Database
    engines: Engines
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "proofs"
    channels: tuple[str, ...] = (MACHINES,)
    chance: random.Random = field(default_factory=random.SystemRandom)
    jobs: Jobs = field(default_factory=lambda: Jobs(_CHECKS_AT_ONCE))
    _not_before_s: dict[str, float] = field(init=False, default_factory=dict)
    _broken_off: Counter[str] = field(init=False, default_factory=Counter)
    """How often in a row, by machine; each time it had answered just before."""
    _owners: dict[str, str] = field(init=False, default_factory=dict)
    """Of machines that were due."""
    _under_way: set[str] = field(init=False, default_factory=set)

    async def due(self, limit: int) -> Due:
        async with self.database.reading() as session:
            machines = await repository.machines_to_prove(session)
        self._owners |= machines
        now_s = self.clock.monotonic()
        waits_s = {one: self._not_before_s.get(one, 0.0) - now_s for one in machines}
        keys = self._in_turn([one for one, wait_s in waits_s.items() if wait_s <= 0])
        later = [wait_s for wait_s in waits_s.values() if wait_s > 0]
        return Due(keys[:limit], min([*later, _LOOK_EVERY_S]))

    def _in_turn(self, machines: list[str]) -> list[str]:
        """A few of each owner's, with those that are at it: whoever lends a hundred that take their time keeps nobody else's waiting."""
        counts = Counter(self._owners[one] for one in self._under_way)
        keys = []
        for one in machines:
            owner = self._owners[one]
            if one not in self._under_way and counts[owner] < _AT_ONCE_OF_AN_OWNER:
                counts[owner] += 1
                keys.append(one)
        return keys

    async def reconcile(self, key: str, lease: Lease) -> None:
        self._under_way.add(key)
        try:
            await self._prove(key, lease)
        finally:
            self._under_way.discard(key)

    async def _prove(self, key: str, lease: Lease) -> None:
        self._not_before_s[key] = self.clock.monotonic() + _SOON_S
        engine = self.engines.by_name().get(key)
        asked = await self._claim(key)
        if not isinstance(engine, RemoteEngine) or asked is None:
            return  # It has not been described yet, or does not answer.
        said = None
        try:
            failure = await self._try(engine, asked)
        except EngineError as exc:
            if exc.code in (AWAY, GAVE_WAY) and not self._breaks_off(key):
                if exc.code == AWAY:
                    raise
                self._not_before_s[key] = self.clock.monotonic() + _LOOK_EVERY_S
                return
            said = exc.message
            failure = TOO_SLOW if exc.code == TIMED_OUT else said
        del self._broken_off[key]
        await self._record(key, asked, failure, lease)
        # To its owner it does not matter which of our calls was not answered; to whoever looks for the cause, it does.
        log.info("machine_proof", machine_id=key, failure=failure, said=said)

    def _breaks_off(self, key: str) -> bool:
        """Rather than being away: then it would not be ready for the next one."""
        self._broken_off[key] += 1
        return self._broken_off[key] >= BROKEN_OFF_OFTEN

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._not_before_s[key] = self.clock.monotonic() + _LOOK_EVERY_S

    async def lead(self, lease: Lease) -> None:
        self._not_before_s.clear()
        self._broken_off.clear()

    async def _claim(self, key: str) -> _Asked | None:
        async with self.database.reading() as session:
            nodes = [node for node in await list_nodes(session) if node.engine == key and node.ready]
        if not nodes:
            return None
        node: NodeCapacity = nodes[0]
        held = await self._held(node.key)
        claim = Claim(
            node.memory_bytes - held.memory_bytes,
            max(node.cpu_millis - held.cpu_millis, 1000) / 1000,
            tuple(
                gpu
                for gpu in node.gpus
                if gpu.device_id not in held.gpu_device_ids and gpu.unusable_because is None
            ),
        )
        return _Asked(node, claim, held)

    async def _held(self, machine: MachineKey) -> Used:
        async with self.database.reading() as session:
            return (await used_capacity(session, {machine.engine})).get(machine, Used())

    async def _try(self, engine: RemoteEngine, asked: _Asked) -> str | None:
        """Why it has not proven what it claims; None where it has."""
        owner = asked.node.owner or str(asked.node.engine)
        nonce = secrets.token_hex(16)
        began_s = self.clock.monotonic()
        await asyncio.to_thread(memory_row, nonce, 0, ITERATIONS)
        row_s = self.clock.monotonic() - began_s
        for task in tasks_for(asked.claim, nonce, row_s):
            if await self._held(asked.node.key) != asked.held:
                raise EngineError("prove: a replica came or went meanwhile", code=GAVE_WAY)
            filled = await engine.prove(task.order, task.within_s)
            question = question_for(task.order, secrets.token_hex(16), self.chance)
            answer = await engine.answer_for(question, task.answer_within_s)
            if wrong := await self._why_wrong(owner, task.order, filled, question, answer):
                return wrong
        return None

    async def _why_wrong(
        self,
        owner: str,
        order: ProofOrder,
        filled: ProofFilled,
        question: ProofQuestion,
        answer: ProofAnswer,
    ) -> str | None:
        if not order.gpus:
            return await asyncio.to_thread(why_wrong, order, filled, question, answer, self.chance)
        # Adding up keeps Python busy for seconds, for each GPU that a machine claims: not in the process that looks after
        # everybody's containers.
        seeded = random.Random(self.chance.getrandbits(128))  # noqa: S311 - nobody knows the seed
        return await self.jobs.run(owner, why_wrong, order, filled, question, answer, seeded)

    async def _record(self, key: str, asked: _Asked, failure: str | None, lease: Lease) -> None:
        shortest, longest = AGAIN_WITHIN
        right = failure is None
        again = shortest + self.chance.random() * (longest - shortest) if right else APART
        async with self.database.transaction() as session:
            await lease.guard(session)
            row = await repository.lock_machine(session, key)
            if row is None or row.state in (MachineState.REMOVED, MachineState.BANNED):
                return
            failed_before = row.proof_failure is not None
            await repository.note_proof(session, key, again, failure)
            if right:
                row.facts = {**row.facts, "proven": _proven(asked, row.facts.get("proven")).to_json()}
            happening = Happening.VERIFIED if failure is None else Happening.DISTRUSTED
            # Once may be the way there, or what else it does; and where nothing runs yet, it may try again and again.
            trusted = row.standing != MachineState.VERIFYING
            again_wrong = failure is not None and failed_before and trusted
            if again_wrong:
                await void_served(session, key, "proof_failed")
            if failure is None or again_wrong:
                await service.say(
                    session,
                    self.keyring,
                    self.settings,
                    key,
                    happening,
                    speaker=Speaker.MOORAGE,
                    actor_id="system",
                    because=f"It did not prove what it claims: {failure}" if failure is not None else None,
                )


def _proven(asked: _Asked, before: dict[str, Any] | None) -> Proven:
    """With GPUs that were not asked for because replicas hold them, if they have been proven before and are what they were."""
    shown = Proven.of(asked.node, asked.claim.gpus)
    if before is None:
        return shown
    held = Proven.from_json(before).gpus & Proven.of(asked.node, asked.node.gpus).gpus
    return replace(shown, gpus=shown.gpus | held)
