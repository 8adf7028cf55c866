"""Machines that are lent prove what they claim, through the tunnel's own protocol; liars are found out, and two with one GPU."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import structlog.testing
from aiohttp import web
from reconciler_support import KEYRING, Machine, WatchedEngine, World
from sqlalchemy import text
from test_earnings_live import waiting
from test_fleet import JOINED, JOINED_AGAIN, NodeRole, let_in
from test_fleet import fleet as fleet
from test_fleet import world as world
from test_renewals import change, query

from moorage.catalog.repository import list_nodes, replace_nodes
from moorage.engines.base import GpuDevice, ReplicaSpec
from moorage.engines.remote.proofs import ProofAnswer, ProofFilled, ProofOrder, ProofQuestion
from moorage.engines.simulated_machine import engine_ref
from moorage.entrypoints.fleet import Fleet
from moorage.entrypoints.proving import ProofsReconciler
from moorage.kit.clock import system_clock
from moorage.kit.ids import new_container_id, new_organization_id, new_project_id, new_replica_id
from moorage.machines.proof import rules
from moorage.machines.proof.values import ROW_BYTES
from moorage.machines.reconciler import MachinesReconciler
from moorage.node.main import credential_digest
from moorage.node.proofs import Proofs
from moorage.node.server import NodeServer
from moorage.reconcile.lease import Lease, LeaseKeeper
from tests.ports import free_port

REMOVED = "state = 'removed', sealed_credential = NULL, secret_hash = NULL"


class Forgetful(Proofs):
    """Kept nothing, and says something."""

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        await super().answer(question)
        return ProofAnswer(tuple(secrets.token_hex(32) for _ in question.rows))


class Silent(Proofs):
    """Takes its time for the answer."""

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        await asyncio.Event().wait()
        raise AssertionError("nobody ends that wait")


class WrongOnce(Proofs):
    """Says something else the first time."""

    asked = 0

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        right = await super().answer(question)
        self.asked += 1
        return ProofAnswer(tuple(secrets.token_hex(32) for _ in question.rows)) if self.asked == 1 else right


@asynccontextmanager
async def answering(proofs: Proofs, name: str = "garage") -> AsyncIterator[NodeRole]:
    role = NodeRole(Machine(name, "127.0.0.1"), free_port(), secrets.token_urlsafe(32))
    role.machine.memory_bytes = 8 * ROW_BYTES
    server = NodeServer(WatchedEngine(role.machine), credential_digest(role.credential), system_clock, None)
    server.proofs = proofs
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", role.port).start()
    try:
        yield role
    finally:
        await runner.cleanup()


async def lend(
    world: World, role: NodeRole, machine_id: str = JOINED, state: str = "verifying", **how: Any
) -> None:
    await let_in(world, role, machine_id, **how)
    await change(
        world,
        f"UPDATE machines SET infrastructure = 'community', owner_organization_id = '{world.project.organization_id}',"
        f" state = '{state}', standing = '{state}', joined_at = now() WHERE id = '{machine_id}'",
    )


async def described(fleet: Fleet, *machines: str) -> None:
    await fleet.look()
    for machine_id in machines:
        nodes = await fleet.engines.of(machine_id).capacity()
        async with fleet.database.transaction() as session:
            await replace_nodes(session, nodes, machine_id)
    await fleet.look()


async def lease_of(world: World, name: str) -> Lease:
    lease = await LeaseKeeper(world.database, name, "test", system_clock).acquire()
    assert lease is not None
    return lease


async def prove(fleet: Fleet, world: World) -> list[str]:
    """The machines that were asked."""
    reconciler = ProofsReconciler(fleet.database, fleet.engines, KEYRING, fleet.settings, system_clock)
    lease = await lease_of(world, f"proofs-{secrets.token_hex(4)}")
    keys = list((await reconciler.due(10)).keys)
    for key in keys:
        await reconciler.reconcile(key, lease)
    return keys


async def test_who_proves_it_is_let_in(fleet: Fleet, world: World) -> None:
    async with answering(Proofs()) as role:
        await lend(world, role)
        await fleet.look()
        assert await prove(fleet, world) == [JOINED]
        assert await query(world, "SELECT state, proven_at FROM machines") == [("verifying", None)], (
            "it has not been described"
        )
        await described(fleet, JOINED)
        async with world.database.reading() as session:
            (node,) = [one for one in await list_nodes(session) if one.engine == JOINED]
        assert (node.name, node.takes_replicas) == (JOINED, False), "by its id, and for nobody yet"
        assert node.owner == world.project.organization_id
        assert await prove(fleet, world) == [JOINED]
        ((state, due),) = await query(
            world,
            "SELECT state, proof_due_at BETWEEN now() + interval '11 h' AND now() + interval '36 h' FROM machines",
        )
        assert (state, due) == ("probation", True)
        assert await prove(fleet, world) == [], "at some time of tomorrow"
        await described(fleet, JOINED)
        async with world.database.reading() as session:
            (node,) = [one for one in await list_nodes(session) if one.engine == JOINED]
        assert (node.takes_replicas, node.on_probation) == (True, True)


async def test_who_kept_nothing_is_not(fleet: Fleet, world: World) -> None:
    async with answering(Forgetful()) as role:
        await lend(world, role)
        await described(fleet, JOINED)
        await prove(fleet, world)
        ((state, failure, stopped_by),) = await query(
            world, "SELECT state, proof_failure, stopped_by FROM machines"
        )
        assert (state, stopped_by) == ("verifying", None)
        assert "did not hold what it was filled with" in str(failure)
        assert await prove(fleet, world) == [], "it may try again in ten minutes"


async def test_who_is_too_slow_is_told_so(
    fleet: Fleet, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not which of our calls it was that nobody answered."""
    monkeypatch.setattr(rules, "ANSWER_WITHIN_S", 0.2)
    async with answering(Silent()) as role:
        await lend(world, role)
        await described(fleet, JOINED)
        with structlog.testing.capture_logs() as logged:
            await prove(fleet, world)
    assert await query(world, "SELECT state, proof_failure FROM machines") == [("verifying", rules.TOO_SLOW)]
    (proof,) = [one for one in logged if one["event"] == "machine_proof"]
    assert proof["failure"] == rules.TOO_SLOW
    assert "no answer within" in proof["said"], "the log does say which call"


async def test_who_claims_more_than_there_is_fails(fleet: Fleet, world: World) -> None:
    async with answering(Proofs()) as role:
        role.machine.memory_bytes = 2**50
        await lend(world, role)
        await described(fleet, JOINED)
        await prove(fleet, world)
    ((state, failure),) = await query(world, "SELECT state, proof_failure FROM machines")
    assert (state, str(failure).startswith("prove: ")) == ("verifying", True)


async def test_one_that_was_trusted_is_paused(fleet: Fleet, world: World) -> None:
    async with answering(Forgetful()) as role:
        await lend(world, role, state="active")
        await described(fleet, JOINED)
        await prove(fleet, world)
        assert await query(world, "SELECT state FROM machines") == [("active",)], "once may be chance"
        assert await query(world, "SELECT reason FROM machine_voids") == []
        await change(world, "UPDATE machines SET proof_due_at = now()")
        await prove(fleet, world)
    ((state, stopped_by, why),) = await query(world, "SELECT state, stopped_by, held_because FROM machines")
    assert (state, stopped_by) == ("paused", "moorage")
    assert "did not prove" in str(why)
    assert await query(world, "SELECT reason FROM machine_voids") == [("proof_failed",)], (
        "and it earns nothing by that"
    )


async def test_a_machine_that_is_away_proves_nothing_and_loses_nothing(fleet: Fleet, world: World) -> None:
    async with answering(Proofs()) as role:
        await lend(world, role, state="active")
        await described(fleet, JOINED)
    with pytest.raises(Exception, match="broke"):
        await prove(fleet, world)
    assert await query(world, "SELECT state, proof_failure FROM machines") == [("active", None)]


@pytest.mark.parametrize(
    ("came", "standing", "paused"),
    [
        ("at once", "probation", {JOINED, JOINED_AGAIN}),
        ("at once", "active", {JOINED_AGAIN}),
        ("one after the other", "probation", {JOINED_AGAIN}),
    ],
)
async def test_two_that_say_they_have_one_gpu(
    fleet: Fleet, world: World, came: str, standing: str, paused: set[str]
) -> None:
    """Both are paused, unless one is known to have had it before or is trusted more: any tenant can read which GPU that is."""
    gpu = GpuDevice("GPU-11111111-2222", "NVIDIA L4", 24 * 2**30, None)
    async with answering(Proofs()) as one, answering(Proofs(), "attic") as other:
        one.machine.gpus = other.machine.gpus = (gpu,)
        await lend(world, one, state=standing)
        await lend(world, other, JOINED_AGAIN, state="probation", address="127.0.0.2", name="attic")
        await change(world, f"UPDATE machines SET address = '127.0.0.1' WHERE id = '{JOINED}'")
        await described(fleet, JOINED)
        reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
        lease = await lease_of(world, "machines")
        if standing == "active":
            been = "INSERT INTO machine_state_changes (machine_id, at, state) VALUES ('{}', now() - interval '9 days', 'active')"
            await change(world, been.format(JOINED))
        if came == "one after the other":
            await reconciler.judge(lease)
            assert await query(world, "SELECT id FROM machines WHERE state = 'paused'") == []
        async with world.database.transaction() as session:
            await replace_nodes(
                session,
                [replace(node, name="attic") for node in await fleet.engines.of(JOINED).capacity()],
                JOINED_AGAIN,
            )
        for _ in range(2):
            await reconciler.judge(lease)
    rows = await query(world, "SELECT id FROM machines WHERE state = 'paused' AND stopped_by = 'moorage'")
    assert {row[0] for row in rows} == paused


@pytest.mark.parametrize(
    ("claims", "paused"), [("while it looks", {JOINED_AGAIN}), ("before it looks", {JOINED, JOINED_AGAIN})]
)
async def test_who_is_silent_when_another_controller_begins_still_has_its_gpu(
    fleet: Fleet, world: World, claims: str, paused: set[str]
) -> None:
    """Meanwhile another says that it is its own, as any tenant of it could. Where both said so before anybody looked, nobody knows."""
    async with answering(Proofs()) as one, answering(Proofs(), "attic") as other:
        one.machine.gpus = other.machine.gpus = (
            GpuDevice("GPU-11111111-2222", "NVIDIA L4", 24 * 2**30, None),
        )
        await lend(world, one, state="probation")
        await lend(world, other, JOINED_AGAIN, state="probation", address="127.0.0.2", name="attic")
        await change(world, f"UPDATE machines SET address = '127.0.0.1' WHERE id = '{JOINED}'")
        await described(fleet, JOINED)
        await change(
            world, f"UPDATE nodes SET ready = false, unready_since = now() WHERE engine = '{JOINED}'"
        )
        reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
        lease = await lease_of(world, "machines")
        if claims == "while it looks":
            await reconciler.judge(lease)
        async with world.database.transaction() as session:
            claim = [replace(node, name="attic") for node in await fleet.engines.of(JOINED).capacity()]
            await replace_nodes(session, claim, JOINED_AGAIN)
        await reconciler.judge(lease)
        await change(world, "UPDATE nodes SET ready = true, unready_since = NULL")
        await reconciler.judge(lease)
    rows = await query(world, "SELECT id FROM machines WHERE state = 'paused'")
    assert {row[0] for row in rows} == paused


async def test_many_of_one_owner_keep_nobody_waiting(fleet: Fleet, world: World) -> None:
    await change(world, "INSERT INTO organizations (id, name) VALUES ('org_other', 'Other')")
    role = NodeRole(Machine("garage", "127.0.0.1"), 1, "credential")
    many = [f"mch_{number:020}" for number in range(40)]
    for number, machine_id in enumerate([*many, JOINED]):
        await lend(world, role, machine_id, address=f"127.0.1.{number}", name=f"garage-{number}")
    await change(world, f"UPDATE machines SET owner_organization_id = 'org_other' WHERE id = '{JOINED}'")
    reconciler = ProofsReconciler(fleet.database, fleet.engines, KEYRING, fleet.settings, system_clock)
    keys = (await reconciler.due(32)).keys
    assert (len(keys), JOINED in keys) == (5, True)
    reconciler._under_way.update(keys)
    assert (await reconciler.due(32)).keys == [], "those that are at it count"


async def test_a_machine_that_stays_is_trusted_with_more(fleet: Fleet, world: World) -> None:
    async with answering(Proofs()) as role:
        await lend(world, role, state="probation")
    reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
    lease = await lease_of(world, "machines")

    async def was(hours_ago: float, state: str, before: str | None = None) -> None:
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    "INSERT INTO machine_state_changes (machine_id, at, state, before_loss)"
                    " VALUES (:id, now() - :hours * interval '1 hour', :state, :before)"
                ),
                {"id": JOINED, "hours": hours_ago, "state": state, "before": before},
            )

    await was(10, "probation")
    await reconciler.judge(lease)
    assert await query(world, "SELECT state FROM machines") == [("probation",)]
    await was(20, "probation")
    await reconciler.judge(lease)
    assert await query(world, "SELECT state FROM machines") == [("active",)]
    await change(world, "DELETE FROM machine_state_changes")
    await was(30, "active")
    await was(3, "lost", "active")
    await was(1, "active")
    await reconciler.judge(lease)
    assert await query(world, "SELECT state FROM machines") == [("probation",)]


async def test_one_that_is_removed_while_it_is_judged_keeps_no_other_waiting(
    fleet: Fleet, world: World
) -> None:
    async with answering(Proofs()) as role:
        await lend(world, role, state="active")
        await lend(world, role, JOINED_AGAIN, state="active", address="127.0.0.2", name="attic")
    first, second = sorted([JOINED, JOINED_AGAIN])
    reconciler = MachinesReconciler(world.database, KEYRING, fleet.settings, system_clock)
    lease = await lease_of(world, "machines")
    async with world.database.transaction() as session:
        await session.execute(text(f"UPDATE machines SET {REMOVED} WHERE id = '{first}'"))
        judged = asyncio.create_task(reconciler.judge(lease))
        await waiting(world, 1)
    await judged
    assert await query(world, f"SELECT standing FROM machines WHERE id = '{second}'") == [("probation",)]


async def test_a_right_answer_after_a_wrong_one_takes_nothing_back(fleet: Fleet, world: World) -> None:
    async with answering(WrongOnce()) as role:
        await lend(world, role, state="active")
        await described(fleet, JOINED)
        await prove(fleet, world)
        assert await query(world, "SELECT state, proof_failure IS NULL FROM machines") == [("active", False)]
        await change(world, "UPDATE machines SET proof_due_at = now()")
        await prove(fleet, world)
    assert await query(world, "SELECT state, proof_failure FROM machines") == [("active", None)]
    assert await query(world, "SELECT reason FROM machine_voids") == []


class Crowded(Proofs):
    """A replica begins on the machine before each answer, so many times."""

    def __init__(self, starts: int) -> None:
        super().__init__()
        self.left = starts
        self.start: Callable[[ReplicaSpec], Awaitable[object]] | None = None

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        if self.left and self.start is not None:
            self.left -= 1
            await self.start(a_replica(self.left))
        return await super().answer(question)


def a_replica(number: int) -> ReplicaSpec:
    return ReplicaSpec(
        replica_id=new_replica_id(),
        container_id=new_container_id(),
        project_id=new_project_id(),
        organization_id=new_organization_id(),
        slot=number,
        generation=1,
        image=engine_ref("local/deaf:latest"),
        command=None,
        environment={},
        port=8000,
        host_port=13990 + number,
        vcpu_millis=100,
        memory_bytes=2**20,
        disk_bytes=2**20,
    )


@pytest.mark.parametrize(("starts", "state"), [(2, "probation"), (3, "paused")])
async def test_a_proof_gives_way_to_a_replica_and_says_nothing_then(
    fleet: Fleet, world: World, starts: int, state: str
) -> None:
    """Whoever is disturbed in each of them has not proven anything: its owner may be behind that."""
    proofs = Crowded(starts)
    async with answering(proofs) as role:
        await lend(world, role, state="probation")
        await change(world, "UPDATE machines SET proof_failure = 'once'")
        await described(fleet, JOINED)
        proofs.start = fleet.engines.of(JOINED).start
        reconciler = ProofsReconciler(fleet.database, fleet.engines, KEYRING, fleet.settings, system_clock)
        lease = await lease_of(world, "proofs")
        for number in range(starts):
            await reconciler.reconcile(JOINED, lease)
            assert len(role.machine.running()) == number + 1
            if number < 2:
                assert await query(world, "SELECT proof_failure FROM machines") == [("once",)]
        await reconciler.reconcile(JOINED, lease)
    ((found, voids),) = await query(world, "SELECT state, (SELECT count(*) FROM machine_voids) FROM machines")
    assert (found, voids) == (state, int(state == "paused"))


class Asked(Proofs):
    """After its first answer somebody's replica is placed on the GPU that is next."""

    def __init__(self, place: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.place, self.orders = place, list[ProofOrder]()

    async def begin(self, order: ProofOrder) -> ProofFilled:
        self.orders.append(order)
        return await super().begin(order)

    async def answer(self, question: ProofQuestion) -> ProofAnswer:
        right = await super().answer(question)
        await self.place()
        return right


async def test_a_gpu_that_was_given_to_a_replica_meanwhile_is_not_filled(fleet: Fleet, world: World) -> None:
    container_id = await world.create()

    async def place() -> None:
        await change(
            world,
            "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, engine, node, gpu_device_ids, "
            f"ended_badly) VALUES ('rep_new', '{container_id}', 0, 1, 'cpu-nano', 'requested', '{JOINED}', '{JOINED}', "
            "'{GPU-0}', false)",
        )

    proofs = Asked(place)
    async with answering(proofs) as role:
        role.machine.gpus = (GpuDevice("GPU-0", "NVIDIA L4", 24 * 2**30),)
        await lend(world, role, state="probation")
        await described(fleet, JOINED)
        assert await prove(fleet, world) == [JOINED]
    assert [len(order.gpus) for order in proofs.orders] == [0]
    assert await query(world, "SELECT state, proof_failure, proof_due_at FROM machines") == [
        ("probation", None, None)
    ]
