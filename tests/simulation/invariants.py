"""What must be true after every event, each with a name. To add one: a function that yields sentences, listed below."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.simulation.world import World

Check = Callable[["Invariants"], Iterator[str]]


class BrokenError(Exception):
    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name
        self.sentence = sentence


@dataclass
class Invariants:
    world: World
    unpaid_since_s: dict[str, float] = field(default_factory=dict)
    twins_since_s: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Containers that were deleted, and nothing of them was left."""
    checks: int = 0

    def check(self) -> None:
        self.checks += 1
        for name, check in ALWAYS.items():
            for sentence in check(self):
                raise BrokenError(name, sentence)

    def check_settled(self) -> None:
        """Once faults have stopped and everything had its time."""
        self.check()
        for name, check in SETTLED.items():
            for sentence in check(self):
                raise BrokenError(name, sentence)

    def check_empty(self) -> None:
        """Once everything was deleted."""
        for name, check in EMPTY.items():
            for sentence in check(self):
                raise BrokenError(name, sentence)


def ledger_adds_up(of: Invariants) -> Iterator[str]:
    ((total,),) = of.world.query("SELECT coalesce(sum(amount_microusd), 0) FROM ledger_entries")
    if total != "0":
        yield f"all entries together are {total}"
    rows = of.world.query(
        """SELECT a.organization_id, a.available_microusd + a.held_microusd AS kept,
            (SELECT coalesce(sum(e.amount_microusd), 0) FROM ledger_entries e
             WHERE e.account = 'credit:' || a.organization_id) AS booked
        FROM credit_accounts a"""
    )
    for organization, kept, booked in rows:
        if kept != booked:
            yield f"{organization} has {kept}, its entries say {booked}"


def holds_are_accounted_for(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        """SELECT a.organization_id, a.held_microusd, coalesce(sum(h.price_microusd), 0)
        FROM credit_accounts a LEFT JOIN hours h ON h.organization_id = a.organization_id AND h.state = 'held'
        GROUP BY 1, 2"""
    )
    for organization, held, wanted in rows:
        if held != wanted:
            yield f"{organization} holds {held}, its held hours are {wanted}"


def never_below_zero(of: Invariants) -> Iterator[str]:
    for (organization,) in of.world.query(
        "SELECT organization_id FROM credit_accounts WHERE available_microusd < 0 OR held_microusd < 0"
    ):
        yield f"{organization} has less than nothing"


def no_hour_twice(of: Invariants) -> Iterator[str]:
    """Two paid hours of one slot at the same time. One that was decided about (`due_at` is empty) and could not be
    renewed may overlap with what was bought later, for no longer than the lead."""
    world = of.world
    hour_s = world.settings.billing_hour_s
    rows = world.query(
        f"""SELECT a.container_id, a.slot, a.id, b.id FROM hours a JOIN hours b
            ON a.container_id = b.container_id AND a.slot = b.slot AND a.instance_type = b.instance_type
            AND a.id < b.id AND a.state = 'paid' AND b.state = 'paid'
        WHERE least(a.expires_at, b.expires_at)
            - greatest(a.expires_at, b.expires_at) + interval '{hour_s} seconds' > interval '75 seconds'"""
    )
    for container, slot, first, second in rows:
        yield f"slot {slot} of {container} is charged twice for the same time: {first}, {second}"


def what_serves_is_paid(of: Invariants) -> Iterator[str]:
    """A replica that takes requests lies within a paid hour of its slot. A minute's grace after its end: the gateway hears
    of a drain a moment later. Not while nobody was there to renew: what passed then is not charged."""
    world, now_s = of.world, of.world.now_s()
    unpaid: dict[str, float] = {}
    if serving := _serving(world):
        hour_s = world.settings.billing_hour_s
        names = ", ".join(f"'{name}'" for name in serving)
        rows = world.query(
            f"""SELECT r.id FROM replicas r WHERE r.id IN ({names}) AND r.state IN ('ready', 'routed')
            AND NOT EXISTS (SELECT FROM hours h WHERE h.container_id = r.container_id AND h.slot = r.slot
                AND h.state = 'paid' AND h.expires_at > sim.clock_timestamp()
                AND h.expires_at - interval '{hour_s} seconds' <= sim.clock_timestamp())"""
        )
        for (replica,) in rows:
            assert replica is not None, "a key"
            unpaid[replica] = of.unpaid_since_s.get(replica, now_s)
    if now_s < world.renewals_away_until_s:
        unpaid = dict.fromkeys(unpaid, now_s)
    of.unpaid_since_s = unpaid
    for replica, since_s in unpaid.items():
        if now_s - since_s > 60:
            yield f"replica {replica} has served for {now_s - since_s:.0f} s without a paid hour"


def _serving(world: World) -> list[str]:
    runs = {one.spec.replica_id for one in world.machine.running()}
    return sorted(name for name in world.haproxy.enabled() if name in runs)


def one_process_for_a_slot(of: Invariants) -> Iterator[str]:
    """Never two of the same generation, and of two generations no longer than a hand-over and its drain take."""
    world, now_s = of.world, of.world.now_s()
    running = Counter(
        (one.spec.container_id, one.spec.generation, one.spec.slot) for one in world.machine.running()
    )
    for (container, generation, slot), count in running.items():
        if count > 1:
            yield f"{count} processes run for slot {slot} of {container}, generation {generation}"
    by_slot = Counter((one.spec.container_id, one.spec.slot) for one in world.machine.running())
    twins = {f"{container} slot {slot}" for (container, slot), count in by_slot.items() if count > 1}
    of.twins_since_s = {name: of.twins_since_s.get(name, now_s) for name in sorted(twins)}


def no_request_to_a_stranger(of: Invariants) -> Iterator[str]:
    """What listens at a server's port is the replica that the gateway means, or nobody."""
    world = of.world
    at_port = {one.spec.host_port: one.spec for one in world.machine.running()}
    for name, held in world.haproxy.servers.items():
        spec = at_port.get(held.port)
        if spec is not None and spec.replica_id != name and spec.container_id != held.container_id:
            yield f"the gateway sends requests of {held.container_id} to {spec.container_id}"


def a_row_before_a_process(of: Invariants) -> Iterator[str]:
    """Whatever runs has a row; one that is removed only until the sweep finds it."""
    world = of.world
    if not world.machine.replicas:
        return
    known = {row[0] for row in world.query("SELECT id FROM replicas")}
    for one in world.machine.replicas.values():
        if one.spec.replica_id not in known:
            yield f"{one.spec.replica_id} of {one.spec.container_id} is on the machine without a row"


def deleted_stays_deleted(of: Invariants) -> Iterator[str]:
    world = of.world
    rows = world.query("SELECT id FROM containers WHERE deleted_at IS NOT NULL")
    deleted = {row[0] for row in rows if row[0] is not None}
    here = {one.spec.container_id for one in world.machine.replicas.values()}
    for container in sorted(of.gone & here):
        yield f"{container} was deleted and is on the machine again"
    of.gone |= deleted - here


def everything_has_a_way_out(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        "SELECT id, state, desired_state, reason, message FROM containers WHERE deleted_at IS NULL ORDER BY id"
    )
    for container, state, desired, reason, message in rows:
        settled = {
            "running": state in ("RUNNING", "FAILED") or (state == "PENDING" and reason is not None),
            "stopped": state in ("STOPPED", "FAILED"),
            "deleted": False,
        }
        if not settled[desired or ""]:
            yield f"{container} should be {desired} and is {state} ({reason}: {message})"


def rows_and_machine_agree(of: Invariants) -> Iterator[str]:
    world = of.world
    rows = world.query("SELECT id, container_id, state FROM replicas WHERE state <> 'removed' ORDER BY id")
    live = {row[0] for row in rows if row[2] in ("ready", "routed")}
    there = {one.spec.replica_id for one in world.machine.running()}
    for name in sorted(there - live):
        yield f"{name} runs, and its row is not live"
    for name in sorted(live - there):
        yield f"{name} is live in the database and does not run"
    at_gateway = set(world.haproxy.servers)
    for name in sorted(at_gateway - live):
        yield f"{name} is at the gateway and its row is not live"


def no_hold_without_a_reason(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        """SELECT h.id, h.container_id, h.slot, c.state FROM hours h LEFT JOIN containers c ON c.id = h.container_id
        WHERE h.state = 'held' AND (c.id IS NULL OR c.deleted_at IS NOT NULL OR c.state IN ('RUNNING', 'STOPPED'))"""
    )
    for hour, container, slot, state in rows:
        yield f"{hour} is held for slot {slot} of {container}, which is {state}"


def every_hour_is_decided(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        """SELECT id, container_id, slot, due_at FROM hours
        WHERE due_at < sim.clock_timestamp() - interval '5 minutes'"""
    )
    for hour, container, slot, due_at in rows:
        yield f"{hour} of slot {slot} of {container} was due at {due_at}, and nobody decided"


def what_was_asked_last_wins(of: Invariants) -> Iterator[str]:
    world = of.world
    for container, (desired, why) in world.wishes.items():
        rows = world.query(f"SELECT desired_state, stop_reason FROM containers WHERE id = '{container}'")
        for found, stop_reason in rows:
            if found != desired and stop_reason is None:
                yield f"{container} was asked to be {desired} ({why}) and should be {found}"


def slots_are_single(of: Invariants) -> Iterator[str]:
    for name in of.twins_since_s:
        yield f"two processes run for {name}"


def nothing_is_left(of: Invariants) -> Iterator[str]:
    world = of.world
    for one in world.machine.replicas.values():
        yield f"{one.spec.replica_id} of {one.spec.container_id} is still on the machine"
    for name in world.haproxy.servers:
        yield f"{name} is still at the gateway"
    for container, state, reason in world.query(
        "SELECT id, state, reason FROM containers WHERE deleted_at IS NULL"
    ):
        yield f"{container} cannot be deleted: {state} ({reason})"
    for hour, container in world.query("SELECT id, container_id FROM hours WHERE state = 'held'"):
        yield f"{hour} of {container} is still held"
    for replica, state in world.query(
        "SELECT id, state FROM replicas WHERE state <> 'removed' OR port_released_at IS NULL"
    ):
        yield f"{replica} is {state}, its port taken"


ALWAYS: dict[str, Check] = {
    "ledger adds up": ledger_adds_up,
    "holds are accounted for": holds_are_accounted_for,
    "never below zero": never_below_zero,
    "no hour twice": no_hour_twice,
    "what serves is paid": what_serves_is_paid,
    "one process for a slot": one_process_for_a_slot,
    "no request to a stranger": no_request_to_a_stranger,
    "a row before a process": a_row_before_a_process,
    "deleted stays deleted": deleted_stays_deleted,
}
SETTLED: dict[str, Check] = {
    "everything has a way out": everything_has_a_way_out,
    "rows and machine agree": rows_and_machine_agree,
    "slots are single": slots_are_single,
    "no hold without a reason": no_hold_without_a_reason,
    "every hour is decided": every_hour_is_decided,
    "what was asked last wins": what_was_asked_last_wins,
}
EMPTY: dict[str, Check] = {"nothing is left": nothing_is_left, "ledger adds up at the end": ledger_adds_up}

_ = defaultdict
