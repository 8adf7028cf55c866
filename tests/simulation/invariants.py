"""What must be true after every event, each with a name. To add one: a function that yields sentences, listed below."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.simulation.growth import grown, rows_of_tables
from tests.simulation.invariants_hours import PAID, Paid, SlotsOfHours, held_without_a_reason
from tests.simulation.invariants_slots import running_processes, too_many
from tests.simulation.loop import Process
from tests.simulation.passing import TimeAwake
from tests.simulation.world import World

Check = Callable[["Invariants"], Iterator[str]]


class BrokenError(Exception):
    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name
        self.sentence = sentence


_LATE_GRACE_S = 240.0
"""A call that a process made while it led, and that took effect when it did no longer: the engine is not fenced, so the next
leader's sweep finds and removes what came of it."""
_RAN_LATELY_S = 150.0


@dataclass
class Invariants:
    world: World
    watched: frozenset[str] | None = None
    """Only these are looked at; all of them unless a bug is looked for."""
    unpaid_since_s: dict[str, float] = field(default_factory=dict)
    twins_since_s: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Containers that were deleted, and nothing of them was left."""
    checks: int = 0
    unled: list[str] = field(default_factory=list)
    """Engine calls of processes that did not lead."""
    late: dict[str, float] = field(default_factory=dict)
    """Replicas that a process started that led no longer, and for how long they may still be there."""
    bought: set[str] = field(default_factory=set)
    """Hours that were looked at."""
    slots: SlotsOfHours = field(default_factory=SlotsOfHours)
    rows_at_first: dict[str, int] = field(default_factory=dict)
    """Of each table, before the first day."""
    awake: TimeAwake = field(init=False)

    def __post_init__(self) -> None:
        self.awake = TimeAwake(self.world)
        self.world.watch.acts = self._engine_is_called
        self.world.watch.takes_effect = self._engine_obeys
        self.rows_at_first = rows_of_tables(self.world)

    def _engine_is_called(self, process: Process, name: str, of: str) -> None:
        """Only kept: an error here would be the product's to handle."""
        if self.world.now_s() < self.world.leases_in_doubt_until_s:
            return
        if (leader := self._leader()) != process.name:
            self.unled.append(f"{process.name} calls {name} {of}, and the lease is held by {leader}")

    def _engine_obeys(self, process: Process, name: str, of: str) -> None:
        if name == "start" and self._leader() != process.name:
            self.world.story.count("late start")
            self.late[of] = _LATE_GRACE_S

    def _leader(self) -> str | None:
        rows = self.world.query("SELECT holder FROM leases WHERE name = 'containers'")
        return rows[0][0] if rows else None

    def check(self) -> None:
        self.checks += 1
        for name, sentence in the_database_agrees(self):
            self._is_broken(name, sentence)
        self._check_all(ALWAYS)

    def _check_all(self, checks: dict[str, Check]) -> None:
        for name, check in checks.items():
            for sentence in check(self):
                self._is_broken(name, sentence)

    def _is_broken(self, name: str, sentence: str) -> None:
        if self.watched is None or name in self.watched:
            raise BrokenError(name, sentence)

    def check_settled(self) -> None:
        """Once faults have stopped and everything had its time."""
        self.check()
        self._check_all(SETTLED)

    def check_empty(self) -> None:
        """Once everything was deleted."""
        self._check_all(EMPTY)

    def check_kept(self) -> None:
        """Once all that is kept for a time has run out."""
        self._check_all(KEPT)


# What the database alone can tell, in one question: a row for each thing that is wrong.
_LEDGER = """
SELECT 'ledger adds up' AS name, 'all entries together are ' || sum(amount_microusd) AS sentence
FROM ledger_entries HAVING sum(amount_microusd) <> 0
UNION ALL
SELECT 'ledger adds up', a.organization_id || ' has ' || (a.available_microusd + a.held_microusd)
    || ', its entries say ' || coalesce(e.booked, 0)
FROM credit_accounts a LEFT JOIN (
    SELECT account, sum(amount_microusd) AS booked FROM ledger_entries GROUP BY 1
) e ON e.account = 'credit:' || a.organization_id
WHERE a.available_microusd + a.held_microusd <> coalesce(e.booked, 0)
"""
_HOLDS = """
SELECT 'holds are accounted for', a.organization_id || ' holds ' || a.held_microusd || ', its held hours are '
    || coalesce(sum(h.price_microusd), 0)
FROM credit_accounts a LEFT JOIN hours h ON h.organization_id = a.organization_id AND h.state = 'held'
GROUP BY a.organization_id, a.held_microusd HAVING a.held_microusd <> coalesce(sum(h.price_microusd), 0)
"""
_ZERO = """
SELECT 'never below zero', organization_id || ' has less than nothing'
FROM credit_accounts WHERE available_microusd < 0 OR held_microusd < 0
"""
_UNPAID = """
SELECT 'what serves is paid', r.id FROM replicas r WHERE r.id IN ({serving}) AND r.state IN ('ready', 'routed')
AND NOT EXISTS (SELECT FROM hours h WHERE h.container_id = r.container_id AND h.slot = r.slot
    AND h.state = 'paid' AND h.expires_at > sim.clock_timestamp()
    AND h.expires_at - interval '{hour_s} seconds' <= sim.clock_timestamp())
"""
_STRANGERS = """
SELECT 'a row before a process', there.id || ' is on the machine without a row'
FROM (VALUES {there}) AS there (id) WHERE NOT EXISTS (SELECT FROM replicas r WHERE r.id = there.id)
"""
_GIVEN_UP = (
    "SELECT id FROM replicas WHERE reason = 'node_lost' AND state IN ('stopped', 'collected', 'removed')"
)
_DELETED = "SELECT 'deleted', id FROM containers WHERE deleted_at IS NOT NULL"
_BACK = """
SELECT 'deleted stays deleted', id || ' was deleted, and is to be ' || desired_state || ' again'
FROM containers WHERE desired_state <> 'deleted' AND id IN ({forgotten})
"""
# Not what the installation itself stopped since, which says why.
_WISHES = """
SELECT 'what was asked last wins', c.id || ' was asked to be ' || asked.wish || ' (' || asked.why || '), and is to be '
    || c.desired_state
FROM (VALUES {wishes}) AS asked (id, wish, why) JOIN containers c ON c.id = asked.id
WHERE c.desired_state <> asked.wish AND c.stop_reason IS NULL
"""
_SCALES = """
SELECT 'what was asked last wins', c.id || ' was asked to have ' || asked.least || ' replicas at least, and has '
    || (c.settings->>'min_replicas')
FROM (VALUES {scales}) AS asked (id, least) JOIN containers c ON c.id = asked.id
WHERE c.settings->>'min_replicas' <> asked.least
"""
# What was bought for a time that had passed already.
_BOUGHT = """
SELECT 'no hour unserved', id || ' was bought for the time before it was bought'
FROM hours WHERE state = 'paid' AND expires_at < bought_at + interval '{hour_s} seconds' - interval '1 second'
"""


def the_database_agrees(of: Invariants) -> Iterator[tuple[str, str]]:
    world = of.world
    parts = [_LEDGER, _HOLDS, _ZERO, _DELETED, _BOUGHT, PAID]
    forgotten = ", ".join(f"'{name}'" for name in sorted(world.deleted))
    if forgotten:
        parts.append(_BACK)
    serving = ", ".join(f"'{name}'" for name in _serving(world))
    there = ", ".join(f"('{one.spec.replica_id}')" for one in world.replicas())
    if serving:
        parts.append(_UNPAID)
    if there:
        parts.append(_STRANGERS)
    asked = world.being_asked()
    wishes = ", ".join(
        f"('{name}', '{wish}', '{why}')" for name, (wish, why) in world.wishes.items() if name not in asked
    )
    scales = ", ".join(f"('{name}', '{least}')" for name, least in world.scales.items() if name not in asked)
    if wishes:
        parts.append(_WISHES)
    if scales:
        parts.append(_SCALES)
    values = {
        "hour_s": world.settings.billing_hour_s,
        "serving": serving,
        "there": there,
        "forgotten": forgotten,
        "wishes": wishes,
        "scales": scales,
    }
    unpaid, paid, deleted = [], [], set()
    for name, sentence in world.query(" UNION ALL ".join(parts).format(**values)):
        assert name is not None, "never empty"
        assert sentence is not None, "never empty"
        if name == "what serves is paid":
            unpaid.append(sentence)
        elif name == "paid":
            paid.append(Paid.from_sentence(sentence))
        elif name == "deleted":
            deleted.add(sentence)
        else:
            yield name, sentence
    yield from _unpaid(of, unpaid)
    yield from (("no hour twice", sentence) for sentence in of.slots.twice(paid))
    yield from _unserved(of, paid)
    passed_s = of.awake.passed_s()
    of.late = {name: left_s - passed_s for name, left_s in of.late.items() if left_s > passed_s}
    here = {one.spec.container_id for one in world.replicas() if one.spec.replica_id not in of.late}
    for container in sorted(of.gone & here):
        yield "deleted stays deleted", f"{container} was deleted and is on the machine again"
    of.gone |= deleted - here


def _unpaid(of: Invariants, replicas: list[str]) -> Iterator[tuple[str, str]]:
    """A replica that takes requests lies within a paid hour of its slot. A minute's grace after its end: the gateway hears
    of a drain a moment later. Not while nobody was there to renew: what passed then is not charged."""
    now_s = of.world.now_s()
    away = now_s < of.world.renewals_away_until_s
    of.unpaid_since_s = {one: now_s if away else of.unpaid_since_s.get(one, now_s) for one in replicas}
    for replica, since_s in of.unpaid_since_s.items():
        if now_s - since_s > 60:
            yield (
                "what serves is paid",
                f"replica {replica} has served for {now_s - since_s:.0f} s without a paid hour",
            )


def _unserved(of: Invariants, hours: list[Paid]) -> Iterator[tuple[str, str]]:
    """An hour is bought for something that runs, or did so a moment ago. Not while nobody was there to notice that it ended."""
    now_s = of.world.now_s()
    for hour in hours:
        if hour.id in of.bought:
            continue
        of.bought.add(hour.id)
        ran_ago_s = of.world.ran_ago_s(hour.container_id)
        if ran_ago_s > _RAN_LATELY_S and now_s >= of.world.renewals_away_until_s:
            yield (
                "no hour unserved",
                f"{hour.id} of {hour.container_id} was bought, and nothing has run for {ran_ago_s:.0f} s",
            )


def _serving(world: World) -> list[str]:
    runs = {one.spec.replica_id for one in world.running()}
    return sorted(name for name in world.haproxy.enabled() if name in runs)


def one_process_for_a_slot(of: Invariants) -> Iterator[str]:
    """Never two of the same generation, unless one failed and has yet to end; and of two generations no longer than a
    hand-over and its drain take."""
    world, now_s = of.world, of.world.now_s()
    by_slot = Counter((one.spec.container_id, one.spec.slot) for one in world.running())
    twins = {f"{container} slot {slot}" for (container, slot), count in by_slot.items() if count > 1}
    of.twins_since_s = {name: of.twins_since_s.get(name, now_s) for name in sorted(twins)}
    if twins and world.has_fleet:
        _note_given_up(of)
    if twins:
        yield from too_many(running_processes(world, without=of.late))


def _note_given_up(of: Invariants) -> None:
    """Of several machines, what one has that did not answer for so long is taken for gone and replaced on another. If it was
    there all the time, the sweep removes it when it is seen again."""
    given_up = {row[0] for row in of.world.query(_GIVEN_UP)}
    for one in of.world.running():
        if one.spec.replica_id in given_up:
            of.late.setdefault(one.spec.replica_id, _LATE_GRACE_S)


def no_request_to_a_stranger(of: Invariants) -> Iterator[str]:
    """What listens at a server's port is the replica that the gateway means, or nobody."""
    world = of.world
    there = {(one.address, one.spec.host_port): one.spec for one in world.running()}
    for name, held in world.haproxy.servers.items():
        spec = there.get((held.host, held.port))
        if spec is not None and spec.replica_id != name and spec.container_id != held.container_id:
            yield f"the gateway sends requests of {held.container_id} to {spec.container_id}"


def everything_has_a_way_out(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        """SELECT c.id, c.state, CASE WHEN o.suspended_at IS NULL OR c.desired_state = 'deleted'
            THEN c.desired_state ELSE 'stopped' END, c.reason, c.message
        FROM containers c JOIN projects p ON p.id = c.project_id JOIN organizations o ON o.id = p.organization_id
        WHERE c.deleted_at IS NULL ORDER BY c.id"""
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
    there = {one.spec.replica_id for one in world.running()}
    for name in sorted(there - live):
        yield f"{name} runs, and its row is not live"
    for name in sorted(live - there):
        yield f"{name} is live in the database and does not run"
    at_gateway = set(world.haproxy.servers)
    for name in sorted(at_gateway - live):
        yield f"{name} is at the gateway and its row is not live"


def the_gateway_knows_what_is_there(of: Invariants) -> Iterator[str]:
    there = {row[0] for row in of.world.query("SELECT id FROM containers WHERE deleted_at IS NULL")}
    known = {str(name) for name in of.world.haproxy.routes}
    for name in sorted(known - there):
        yield f"the gateway answers for {name}, which was deleted"
    for name in sorted(there - known):
        yield f"the gateway does not know {name}"


def no_hold_without_a_reason(of: Invariants) -> Iterator[str]:
    yield from held_without_a_reason(of.world)


def every_hour_is_decided(of: Invariants) -> Iterator[str]:
    rows = of.world.query(
        """SELECT id, container_id, slot, due_at FROM hours
        WHERE due_at < sim.clock_timestamp() - interval '5 minutes'"""
    )
    for hour, container, slot, due_at in rows:
        yield f"{hour} of slot {slot} of {container} was due at {due_at}, and nobody decided"


def slots_are_single(of: Invariants) -> Iterator[str]:
    for name in of.twins_since_s:
        yield f"two processes run for {name}"


def nothing_is_left(of: Invariants) -> Iterator[str]:
    world = of.world
    for one in world.replicas():
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


def no_engine_call_without_a_lease(of: Invariants) -> Iterator[str]:
    """Whoever changes something on a machine leads; unless the database's clock jumped just now, which ends a lease
    before its holder can know."""
    yield from of.unled


def nothing_grows_without_end(of: Invariants) -> Iterator[str]:
    yield from grown(of.world, of.rows_at_first)


def no_request_crashes(of: Invariants) -> Iterator[str]:
    """Also not by a deadlock, whatever else goes wrong at that time: a request is not tried again."""
    yield from of.world.crashes
    yield from (f"a request in a circle: {sql}" for process, sql in of.world.wire.refused if process == "api")


ALWAYS: dict[str, Check] = {
    "no request crashes": no_request_crashes,
    "no engine call without a lease": no_engine_call_without_a_lease,
    "one process for a slot": one_process_for_a_slot,
    "no request to a stranger": no_request_to_a_stranger,
}
SETTLED: dict[str, Check] = {
    "everything has a way out": everything_has_a_way_out,
    "rows and machine agree": rows_and_machine_agree,
    "the gateway knows what is there": the_gateway_knows_what_is_there,
    "slots are single": slots_are_single,
    "no hold without a reason": no_hold_without_a_reason,
    "every hour is decided": every_hour_is_decided,
}
EMPTY: dict[str, Check] = {
    "nothing is left": nothing_is_left,
    "the gateway knows what is there": the_gateway_knows_what_is_there,
}
KEPT: dict[str, Check] = {"nothing grows without end": nothing_grows_without_end}
AT_THE_END = frozenset({*SETTLED, *EMPTY, *KEPT})
NAMES = (
    "ledger adds up",
    "holds are accounted for",
    "never below zero",
    "no hour twice",
    "no hour unserved",
    "what serves is paid",
    "a row before a process",
    "deleted stays deleted",
    "what was asked last wins",
    *(ALWAYS | SETTLED | EMPTY | KEPT),
)
