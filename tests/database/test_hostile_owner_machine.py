"""A hostile owner's machine, by its own protocol: what it says of itself, and how it goes about its proofs. Each row is an attempt,
and each has no effect: nothing is placed on what nobody has seen, and no reputation comes of nothing."""

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from reconciler_support import KEYRING, WatchedEngine, World, life
from test_fleet import JOINED, JOINED_AGAIN, NodeRole
from test_fleet import fleet as fleet
from test_fleet import world as world
from test_proving import answering, described, lease_of, lend
from test_renewals import change, query

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.repository import list_nodes
from moorage.engines.base import GpuDevice
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.proofs import (
    GpuAnswer,
    GpuFilled,
    ProofAnswer,
    ProofFilled,
    ProofOrder,
    ProofQuestion,
    SumsLeaf,
)
from moorage.engines.remote.proven import UNPROVEN, Proven
from moorage.entrypoints.fleet import Fleet
from moorage.entrypoints.proving import BROKEN_OFF_OFTEN, ProofsReconciler
from moorage.kit.clock import system_clock
from moorage.kit.jobs.jobs import Jobs
from moorage.machines.proof import rules
from moorage.machines.proof.commitment import levels_of, root_of, way_of
from moorage.machines.proof.values import LEAF_SUMS, ROW_BYTES, SUM_BYTES, gpu_row, memory_row, row_digest
from moorage.machines.reconciler import MachinesReconciler
from moorage.machines.states import LOST_AFTER
from moorage.node import server
from moorage.node.proofs import Proofs

H100 = GpuDevice("GPU-11111111-2222", "NVIDIA H100 80GB HBM3", 80 * 2**30)
L4 = GpuDevice("GPU-11111111-2222", "NVIDIA L4", 24 * 2**30)
GPU_TYPE = InstanceType("h100", H100.model, 1, 1000, ROW_BYTES, 2**30, 4_000_000, "community")
CPU_TYPE = InstanceType("small", None, 0, 250, ROW_BYTES, 2**30, 10_000, "community")


class Replays(Proofs):
    """Answers with what it answered the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.first: ProofAnswer | None = None

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        answer = await super().answer(question)
        self.first = self.first or answer
        return self.first


@dataclass
class AnothersChallenge(Proofs):
    """Answers for a nonce that was somebody else's: all rows are right, but for the nonce."""

    nonce: str = "0" * 32

    async def begin(self, order: ProofOrder) -> ProofFilled:
        self.order = order
        return ProofFilled()

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        rows = [memory_row(self.nonce, index, self.order.iterations) for index in question.rows]
        return ProofAnswer(tuple(row_digest(question.salt, row) for row in rows))

    async def close(self) -> None:
        pass


class Half(Proofs):
    """Keeps half of what it is to fill, says the same of both halves."""

    async def begin(self, order: ProofOrder) -> ProofFilled:
        self.kept = order.memory_bytes // 2 // ROW_BYTES
        return await super().begin(replace(order, memory_bytes=self.kept * ROW_BYTES))

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        return await super().answer(replace(question, rows=tuple(row % self.kept for row in question.rows)))


class MakesThemAgain(Proofs):
    """Keeps nothing, and makes what is asked for when it is asked for; which takes its time."""

    async def begin(self, order: ProofOrder) -> ProofFilled:
        self.order = order
        return ProofFilled()

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        await asyncio.sleep(5)
        raise AssertionError("nobody waits so long")

    async def close(self) -> None:
        pass


class SaysNothing(Proofs):
    """Answers, and for nothing that was asked."""

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        await super().answer(question)
        return ProofAnswer(())


LIES: dict[str, Callable[[], Proofs]] = {
    "the answer to an earlier question": Replays,
    "the answer to somebody else's challenge": AnothersChallenge,
    "half of it twice": Half,
    "nothing kept, all made again": MakesThemAgain,
    "no answers": SaysNothing,
}


def proofs(fleet: Fleet) -> ProofsReconciler:
    return ProofsReconciler(fleet.database, fleet.engines, KEYRING, fleet.settings, system_clock)


async def asked(world: World, reconciler: ProofsReconciler) -> None:
    """For a proof that is due."""
    await change(world, "UPDATE machines SET proof_due_at = now()")
    await reconciler.reconcile(JOINED, await lease_of(world, f"proofs-{secrets.token_hex(4)}"))


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.long
async def test_a_proof_that_is_none(
    fleet: Fleet, world: World, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lie == "nothing kept, all made again":
        monkeypatch.setattr(rules, "ANSWER_WITHIN_S", 0.5)
        monkeypatch.setattr(rules, "OF_MAKING_IT_AGAIN", 0.0)
    async with answering(LIES[lie]()) as role:
        await lend(world, role)
        await described(fleet, JOINED)
        reconciler = proofs(fleet)
        if lie == "the answer to an earlier question":
            # That one is right; from then on it is trusted, and has nothing left of what it showed.
            await asked(world, reconciler)
            assert await query(world, "SELECT state FROM machines") == [("probation",)]
            await asked(world, reconciler)
            await asked(world, reconciler)
            expected = ("paused", "moorage")
        else:
            await asked(world, reconciler)
            expected = ("verifying", None)
        assert await query(world, "SELECT state, stopped_by FROM machines") == [expected]
        ((failure,),) = await query(world, "SELECT proof_failure FROM machines")
        assert failure is not None


@pytest.mark.parametrize("how", ["breaks off", "answers with rubbish", "is not found"])
async def test_a_machine_that_serves_and_refuses_its_proofs(fleet: Fleet, world: World, how: str) -> None:
    """It passed the first one, and would never have to show anything again."""

    class Refuses(Proofs):
        async def begin(self, order: ProofOrder) -> ProofFilled:
            if how == "breaks off":
                raise ConnectionResetError
            if how == "is not found":
                raise web.HTTPNotFound
            raise ValueError("and not an error that the protocol knows")

    async with answering(Refuses()) as role:
        await lend(world, role, state="active")
        await described(fleet, JOINED)
        reconciler = proofs(fleet)
        for _ in range(2):
            for _ in range(BROKEN_OFF_OFTEN - 1):
                with pytest.raises(Exception, match="prove on machine"):
                    await asked(world, reconciler)
            await asked(world, reconciler)
    assert await query(world, "SELECT state, stopped_by FROM machines") == [("paused", "moorage")]
    assert await query(world, "SELECT reason FROM machine_voids") == [("proof_failed",)]


@dataclass(frozen=True)
class Growth:
    name: str
    claims: Callable[[NodeRole], None]


def _more_memory(role: NodeRole) -> None:
    role.machine.memory_bytes = 2**40


def _more_cores(role: NodeRole) -> None:
    role.machine.cpu_millis = 1_020_000


def _gpus(*gpus: GpuDevice) -> Callable[[NodeRole], None]:
    def claim(role: NodeRole) -> None:
        role.machine.gpus = gpus

    return claim


GROWTHS = [
    Growth("more memory", _more_memory),
    Growth("more cores", _more_cores),
    Growth("another model for its GPU", _gpus(H100)),
    Growth("another GPU", _gpus(L4, replace(L4, device_id="GPU-2"))),
    Growth("a GPU with more memory", _gpus(replace(L4, memory_bytes=80 * 2**30))),
    Growth("ten GPUs", _gpus(*(replace(H100, device_id=f"GPU-{number}") for number in range(10)))),
]


async def node_of(world: World) -> Any:
    async with world.database.reading() as session:
        (node,) = [one for one in await list_nodes(session) if one.engine == JOINED]
    return node


def room(node: Any, instance_type: InstanceType) -> int:
    return room_for(instance_type, [node], {}, 1.0)


@pytest.mark.parametrize("growth", GROWTHS, ids=lambda one: one.name.replace(" ", "-"))
async def test_what_it_claims_after_its_proof(fleet: Fleet, world: World, growth: Growth) -> None:
    """It is asked for another at once, and until then nothing is placed there."""
    async with answering(Proofs()) as role:
        role.machine.gpus = (L4,)
        await lend(world, role, state="probation")
        proven = Proven.of((await WatchedEngine(role.machine).capacity())[0], role.machine.gpus)
        await change(
            world,
            f"UPDATE machines SET proof_due_at = now() + interval '1 day', proven_at = now() - interval '1 hour', "
            f"facts = jsonb_build_object('proven', '{json.dumps(proven.to_json()).replace(':', chr(92) + ':')}'::jsonb)",
        )
        await described(fleet, JOINED)
        node = await node_of(world)
        assert (node.closed_because, room(node, CPU_TYPE) > 0) == (None, True), "what was proven is believed"
        growth.claims(role)
        await described(fleet, JOINED)
        node = await node_of(world)
        assert (node.closed_because, room(node, CPU_TYPE), room(node, GPU_TYPE)) == (UNPROVEN, 0, 0)
        assert list((await proofs(fleet).due(10)).keys) == [JOINED]


async def test_a_proof_is_of_what_it_claimed_then(fleet: Fleet, world: World) -> None:
    async with answering(Proofs()) as role:
        await lend(world, role)
        await described(fleet, JOINED)
        await asked(world, proofs(fleet))
        ((facts,),) = await query(world, "SELECT facts FROM machines")
        assert facts == {
            "proven": {"cpu_millis": 10**6, "memory_bytes": role.machine.memory_bytes, "gpus": []}
        }
        role.machine.memory_bytes *= 2
        await described(fleet, JOINED)
        assert (await node_of(world)).closed_because == UNPROVEN
        await described(fleet, JOINED)
        assert await query(world, "SELECT proof_due_at > now() FROM machines") == [(True,)], (
            "not at once again"
        )


async def test_a_gpu_of_which_it_says_no_size(fleet: Fleet, world: World) -> None:
    """Nobody could ask for a proof of it."""
    async with answering(Proofs()) as role:
        role.machine.gpus = (replace(H100, memory_bytes=None),)
        await lend(world, role)
        await described(fleet, JOINED)
        await asked(world, proofs(fleet))
        await described(fleet, JOINED)
        assert await query(world, "SELECT state FROM machines") == [("probation",)]
        node = await node_of(world)
        assert (room(node, GPU_TYPE), room(node, CPU_TYPE) > 0) == (0, True)
        assert "cannot be proven" in node.gpus[0].unusable_because


class WithoutAGpu(Proofs):
    """Makes up what its GPU came to, and answers rightly for all else."""

    async def begin(self, order: ProofOrder) -> ProofFilled:
        self.order = order
        leaves = [bytes(LEAF_SUMS * SUM_BYTES)] * (rules._THREADS // LEAF_SUMS)
        self.levels = await asyncio.to_thread(levels_of, leaves)
        return ProofFilled(tuple(GpuFilled(gpu.device_id, root_of(self.levels)) for gpu in order.gpus))

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        nothing = bytes(LEAF_SUMS * SUM_BYTES).hex()
        return ProofAnswer(
            (),
            tuple(
                GpuAnswer(
                    asked.device_id,
                    tuple(
                        row_digest(question.salt, gpu_row(self.order.nonce, row, gpu.rounds))
                        for row in asked.rows
                    ),
                    tuple(SumsLeaf(nothing, way_of(self.levels, leaf)) for leaf in asked.leaves),
                )
                for gpu, asked in zip(self.order.gpus, question.gpus, strict=True)
            ),
        )


class NotedJobs(Jobs):
    done = 0

    async def run(self, owner: str, function: Any, *arguments: Any, **named: Any) -> Any:
        self.done += 1
        return await super().run(owner, function, *arguments, **named)


async def test_what_a_gpu_came_to_is_checked_beside_the_controller(
    fleet: Fleet, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds of a processor, and its owner chooses how many GPUs there are."""
    monkeypatch.setattr(rules, "_GPU_ROWS_ASKED", 4)
    async with answering(WithoutAGpu()) as role:
        await lend(world, role)
        await described(fleet, JOINED)
        reconciler = proofs(fleet)
        asked = await reconciler._claim(JOINED)
        assert asked is not None
        reconciler.jobs = jobs = NotedJobs(1)
        engine = fleet.engines.by_name()[JOINED]
        assert isinstance(engine, RemoteEngine)
        failure = await reconciler._try(engine, replace(asked, claim=rules.Claim(0, 1.0, (L4,))))
    assert "computed wrongly" in str(failure)
    assert jobs.done == 1


async def test_a_heartbeat_and_nothing_else(fleet: Fleet, world: World) -> None:
    """It lets itself be connected to and answers nothing: that is no presence, and reliability does not grow by it."""
    async with answering(Proofs()) as role:
        await lend(world, role, state="probation")
        await described(fleet, JOINED)
        reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
        lease = await lease_of(world, "machines")
        await reconciler.reconcile(JOINED, lease)
        assert await query(world, "SELECT state FROM machines") == [("probation",)]
    silence = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", role.port)
    async with silence, life(world, fleet.engines) as alive:
        await alive.reconciler._pulse.beat(JOINED, alive.lease)
        await change(
            world, f"UPDATE nodes SET unready_since = unready_since - interval '{LOST_AFTER}' WHERE NOT ready"
        )
        await reconciler.reconcile(JOINED, lease)
    assert await query(world, "SELECT state FROM machines") == [("lost",)]


async def test_a_clock_from_the_future(fleet: Fleet, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is placed where nobody knows when something happened."""
    real = server.Envelope

    def ahead(time_s: float, *rest: Any) -> Any:
        return real(time_s + timedelta(days=365).total_seconds(), *rest)

    monkeypatch.setattr(server, "Envelope", ahead)
    async with answering(Proofs()) as role:
        await lend(world, role, state="active")
        await described(fleet, JOINED)
        node = await node_of(world)
    assert room(node, CPU_TYPE) == 0
    assert node.clock_is_wrong


async def test_it_takes_the_gpu_of_another_owner(fleet: Fleet, world: World) -> None:
    """Whose machine would be paused: a tenant there has read which GPU it is."""
    async with answering(Proofs()) as victim, answering(Proofs(), "attic") as thief:
        victim.machine.gpus = (H100,)
        await lend(world, victim, state="probation")
        await lend(world, thief, JOINED_AGAIN, state="probation", address="127.0.0.2", name="attic")
        await described(fleet, JOINED)
        reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
        lease = await lease_of(world, "machines")
        await reconciler.judge(lease)
        await change(
            world,
            f"INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) SELECT "
            f"'{JOINED_AGAIN}', 'attic', infrastructure, architecture, cpu_millis, memory_bytes, gpus, now() FROM nodes "
            f"WHERE engine = '{JOINED}'",
        )
        for _ in range(3):
            await reconciler.judge(lease)
    rows = await query(world, "SELECT state, stopped_by FROM machines ORDER BY id")
    assert rows == [("probation", None), ("paused", "moorage")]
