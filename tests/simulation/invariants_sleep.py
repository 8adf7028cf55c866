"""What sleeps: it costs nothing and runs nothing, wakes once for all who ask with a good key, and whoever waits hears in time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from moorage.containers.activity import SYSTEM
from tests.simulation.endpoint import Asked
from tests.simulation.invariants import BrokenError, Invariants
from tests.simulation.passing import TimeAwake, is_led
from tests.simulation.server import START_US
from tests.simulation.sleepers import Sleepers
from tests.simulation.tempo import REPORTS_CONTINUE_S, SAMPLES_EVERY_S
from tests.simulation.world import World

_UNDER_WAY_S = 30
"""An hour that was being bought as it fell asleep: each of the two transactions names the moment in which it began."""
_EMPTY_AFTER_S = 150.0
"""Gateways have a minute to let go, replicas half of one to drain, and engines are slow."""
_TOLD_AFTER_S = 15.0
"""Of what can be known: that it serves, or that it will not."""
_WOKEN_AFTER_S = 45.0
"""Of requests that wait, while Postgres is there: a statement may take long, and then it is asked again."""
_AWAKE_AFTER_S = 90.0
_HEARD_OF_A_KEY_AFTER_S = 60.0
_LATE_S = 20.0
"""Beyond the time that a request is held: why it did not wake is looked up, and a statement may take long."""
_NOT_ITS_FAULT = frozenset(
    {"hold_full", "wake_timeout", "wake_interrupted", "container_not_running", "not_found"}
    | {"insufficient_credit", "organization_suspended"}
)
_REFUSED = frozenset({401, 403, 404})
_UNCOUNTED_S = SAMPLES_EVERY_S + 2.0
"""What ends between two looks was in use at the first."""
NAMES = (
    "asleep costs nothing",
    "what sleeps runs nothing",
    "one wake for many requests",
    "what is stopped does not sleep",
    "who wakes serves or is decided",
    "who waits wakes it",
    "whoever waits is answered",
    "wrong keys wake nothing",
    "what is used stays awake",
    "what is idle sleeps",
)
# A row for each thing that is wrong, and for what has to be known.
_ROWS = f"""
SELECT 'asleep costs nothing', h.id || ' of ' || h.container_id || ' was bought while that slept' FROM hours h
JOIN container_sleeps s ON s.container_id = h.container_id
WHERE h.bought_at > s.asleep_at + interval '{_UNDER_WAY_S} seconds'
    AND h.bought_at < coalesce(s.woken_at, 'infinity')
UNION ALL
SELECT 'one wake for many requests', a.container_id || ' was woken by ' || a.actor || ', and did not sleep'
FROM activities a WHERE a.kind = 'container.wake' AND EXISTS (SELECT FROM containers c WHERE c.id = a.container_id)
    AND NOT EXISTS (SELECT FROM container_sleeps s WHERE s.container_id = a.container_id AND s.woken_at = a.at)
UNION ALL
SELECT 'what is stopped does not sleep', id || ' is to be ' || desired_state || ' and is asleep, or wakes'
FROM containers WHERE desired_state <> 'running' AND (asleep_since IS NOT NULL OR woken_at IS NOT NULL)
UNION ALL
SELECT 'asleep', id FROM containers WHERE asleep_since IS NOT NULL AND deleted_at IS NULL
UNION ALL
SELECT 'wakes', c.id FROM containers c WHERE c.woken_at IS NOT NULL AND c.deleted_at IS NULL
    AND EXISTS (SELECT FROM replicas r WHERE r.container_id = c.id AND r.state = 'routed')
UNION ALL
SELECT 'slept', concat_ws(' ', s.container_id, extract(epoch FROM s.asleep_at), c.settings->>'sleep_after_s',
    coalesce(s.woken_by, '-')) FROM container_sleeps s JOIN containers c ON c.id = s.container_id
"""
_AWAKE = """
SELECT id FROM containers WHERE settings->>'sleep_after_s' IS NOT NULL AND desired_state = 'running' AND state = 'RUNNING'
AND deleted_at IS NULL AND failed_generation <> generation AND trial_settings IS NULL AND fallback IS NULL
AND asleep_since IS NULL AND woken_at IS NULL AND reason IS NULL ORDER BY id
"""
_UNDECIDED = """
SELECT id, state FROM containers WHERE woken_at IS NOT NULL AND desired_state = 'running' AND deleted_at IS NULL
AND reason IS NULL ORDER BY id
"""


@dataclass
class SleepInvariants:
    world: World
    sleepers: Sleepers
    machines: Invariants
    watched: frozenset[str] | None = None
    asleep_for_s: dict[str, float] = field(default_factory=dict)
    """By container: for how long somebody could have acted on it."""
    waking_for_s: dict[str, float] = field(default_factory=dict)
    """Though a replica is at the endpoint."""
    revoked_for_s: dict[str, float] = field(default_factory=dict)
    """By key: for how long the gateway could have heard of it."""
    waits: dict[int, tuple[Asked, float, float, float]] = field(default_factory=dict)
    """Of each request: how long it was held while its gateway could act, while its container served there or was given up, and
    while that slept and Postgres was there."""
    sleeps: set[str] = field(default_factory=set)
    """That were looked at."""
    ended: set[str] = field(default_factory=set)
    """Sleeps of which is known who ended them."""
    _awake: TimeAwake = field(init=False)

    def __post_init__(self) -> None:
        self._awake = TimeAwake(self.world)

    def check(self) -> None:
        self._all_of(self._always())

    def check_settled(self) -> None:
        self._all_of(self._settled())

    def _all_of(self, wrong: Iterable[tuple[str, str]]) -> None:
        for name, sentence in wrong:
            if self.watched is None or name in self.watched:
                raise BrokenError(name, sentence)

    def _always(self) -> Iterator[tuple[str, str]]:
        passed_s = self._awake.passed_s()
        rows: dict[str, list[str]] = {"asleep": [], "wakes": [], "slept": []}
        for name, sentence in self.world.query(_ROWS):
            assert name is not None, "never empty"
            assert sentence is not None, "never empty"
            if name in rows:
                rows[name].append(sentence)
            else:
                yield name, sentence
        led = is_led(self.world) and self._postgres_is_well()
        self.asleep_for_s = _grown(self.asleep_for_s, rows["asleep"], passed_s if led else None)
        self.waking_for_s = _grown(self.waking_for_s, rows["wakes"], passed_s if led else None)
        yield from self._runs_nothing()
        for name, for_s in self.waking_for_s.items():
            if for_s > _AWAKE_AFTER_S:
                yield "who wakes serves or is decided", f"{name} has served for {for_s:.0f} s and wakes"
        yield from self._waiting(passed_s, frozenset(rows["asleep"]))
        yield from self._answers()
        revoked = [one.id for one in self.sleepers.revoked]
        heard = passed_s if self._gateway_acts() and self._postgres_is_well() else 0.0
        self.revoked_for_s = {one: self.revoked_for_s.get(one, 0.0) + heard for one in revoked}
        for sentence in rows["slept"]:
            yield from self._slept(*sentence.split())

    def _runs_nothing(self) -> Iterator[tuple[str, str]]:
        for one in self.world.running():
            for_s = self.asleep_for_s.get(one.spec.container_id, 0.0)
            if for_s > _EMPTY_AFTER_S and one.spec.replica_id not in self.machines.late:
                yield (
                    "what sleeps runs nothing",
                    f"{one.spec.replica_id} runs, and {one.spec.container_id} has slept for {for_s:.0f} s",
                )

    def _waiting(self, passed_s: float, asleep: frozenset[str]) -> Iterator[tuple[str, str]]:
        before, self.waits = self.waits, {}
        acts, proxy = self._gateway_acts(), self.world.haproxy
        for one in self.sleepers.endpoint.asked:
            _, held_s, known_s, asleep_s = before.get(id(one), (one, -passed_s, -passed_s, -passed_s))
            if one.holder is None or one.is_served:
                continue
            serves = bool(proxy.servers_of(one.container_id))
            known = serves or one.container_id not in proxy.asleep
            held_s += passed_s if acts else 0.0
            # One after the other: between two looks it may have slept again.
            known_s = known_s + passed_s if acts and known else 0.0
            wakes = acts and one.container_id in asleep and self._postgres_is_well()
            asleep_s = asleep_s + passed_s if wakes else 0.0
            self.waits[id(one)] = one, held_s, known_s, asleep_s
            if held_s > self.world.settings.hold_timeout_s + _LATE_S:
                yield (
                    "whoever waits is answered",
                    f"a request to {one.container_id} has waited for {held_s:.0f} s",
                )
            if known_s > _TOLD_AFTER_S:
                what = "serves" if serves else "will not serve"
                yield (
                    "whoever waits is answered",
                    f"a request waits for {known_s:.0f} s, and {one.container_id} {what}",
                )
            if asleep_s > _WOKEN_AFTER_S:
                yield (
                    "who waits wakes it",
                    f"{one.container_id} sleeps on, and a request has waited for {asleep_s:.0f} s",
                )

    def _answers(self) -> Iterator[tuple[str, str]]:
        ended, self.sleepers.endpoint.ended = self.sleepers.endpoint.ended, []
        for one in ended:
            if one.code is not None:
                self.world.story.count(f"answered {one.code}")
            if one.comments:
                self.world.story.count("told to wait")
            if one.holder is not None and one.code is not None and one.code not in _NOT_ITS_FAULT:
                self.world.story.count("wake failed")
            died = one.holder is not None and not one.holder.alive
            if one.code == "wake_interrupted" and not died:
                yield (
                    "whoever waits is answered",
                    f"a request to {one.container_id} was let go without an answer",
                )
            if one.broke_off and not died and not one.left:
                yield "whoever waits is answered", f"the answer of {one.container_id} broke off"
            if one.status == 500:
                yield "whoever waits is answered", f"a request to {one.container_id} crashed"
        for one in self.sleepers.wrong:
            if one.status not in _REFUSED:
                yield (
                    "wrong keys wake nothing",
                    f"{one.container_id} answered {one.status} {one.code} to a wrong key",
                )
        for sentence in self.sleepers.unanswered:
            yield "whoever waits is answered", sentence

    def _slept(self, container_id: str, at: str, idle_s: str, woken_by: str) -> Iterator[tuple[str, str]]:
        name = f"{container_id} {at}"
        if woken_by != "-" and name not in self.ended:
            self.ended.add(name)
            by_request = woken_by.startswith("key_")
            kept_up = "asleep in use" if woken_by == SYSTEM else "ended by hand"
            self.world.story.count("woken by a request" if by_request else kept_up)
            yield from self._woken_by(container_id, woken_by)
        if name in self.sleeps:
            return
        self.sleeps.add(name)
        self.world.story.count("fell asleep")
        asleep_s = float(at) - START_US / 1e6 - self.world.database_off_by_s
        counted_s = asleep_s - REPORTS_CONTINUE_S - _UNCOUNTED_S
        for used_s in self.sleepers.endpoint.uses.get(container_id, ()):
            if asleep_s - float(idle_s) + _UNCOUNTED_S < used_s < counted_s:
                yield (
                    "what is used stays awake",
                    f"{container_id} falls asleep {asleep_s - used_s:.0f} s after a request, and not after {idle_s} s",
                )

    def _woken_by(self, container_id: str, by: str) -> Iterator[tuple[str, str]]:
        if not by.startswith("key_"):
            return
        key, organization = self.sleepers.all_keys.get(by), self.sleepers.users.containers.get(container_id)
        if key is None or (organization is not None and key.project_id != organization.project_id):
            yield "wrong keys wake nothing", f"{container_id} was woken by {by}, which is none of its project"
        if (for_s := self.revoked_for_s.get(by, 0.0)) > _HEARD_OF_A_KEY_AFTER_S:
            yield (
                "wrong keys wake nothing",
                f"{container_id} was woken by {by}, which was revoked {for_s:.0f} s ago",
            )

    def _settled(self) -> Iterator[tuple[str, str]]:
        yield from self._always()
        for (name,) in self.world.query(_AWAKE):
            yield "what is idle sleeps", f"nobody asks anything of {name}, and it is awake"
        for name, state in self.world.query(_UNDECIDED):
            yield "who wakes serves or is decided", f"{name} was woken, is {state}, and nobody says why"
        yield from self._forgotten()

    def _forgotten(self) -> Iterator[tuple[str, str]]:
        """By the holder: nobody waits any longer."""
        holder = self.sleepers.endpoint.holder
        if holder is None or self.sleepers.endpoint.asked:
            return
        left = {
            "places": holder.places.count(),
            "bytes": holder.places.bytes_held,
            "wakes": len(holder._wakes),
            "shares": len(holder.places._shares),
            "clients": len(holder._clients),
        }
        for what, count in left.items():
            if count:
                yield "whoever waits is answered", f"nobody waits, and {count} {what} are kept"

    def _gateway_acts(self) -> bool:
        gateway = self.world.processes["gateway"]
        return gateway.alive and not gateway.stopped

    def _postgres_is_well(self) -> bool:
        return self.world.now_s() > self.world.postgres_ill_until_s


def _grown(before: dict[str, float], names: list[str], passed_s: float | None) -> dict[str, float]:
    """None: nobody could do anything meanwhile, and it begins anew."""
    if passed_s is None:
        return {}
    return {one: before.get(one, -passed_s) + passed_s for one in sorted(names)}
