"""Machines that joined: what is lost is replaced, what is said about them holds, and who left is nobody's."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.fleet import FleetActs, Member
from tests.simulation.invariants import BrokenError
from tests.simulation.passing import TimeAwake, is_led
from tests.simulation.world import World

_TAKES_NONE_AFTER_S = 60.0
"""What a pass had decided when the operator spoke may still start."""
_REPLACED_AFTER_S = 150.0
_LET_GO_AFTER_S = 60.0
_LIVE_THERE = "SELECT id, engine FROM replicas WHERE state IN ('ready', 'routed') AND engine IN ({engines})"
NAMES = (
    "nothing starts where nothing may",
    "what a lost machine had is replaced",
    "a drained machine gets empty",
    "a machine that left is nobody's",
)


@dataclass
class FleetInvariants:
    world: World
    fleet: FleetActs
    watched: frozenset[str] | None = None
    closed_for_s: dict[str, float] = field(default_factory=dict)
    """By machine: for how long somebody could have known that it takes nothing new."""
    lost_for_s: dict[str, float] = field(default_factory=dict)
    """By machine: for how long nobody reached it, and somebody led who could see that."""
    started: set[str] = field(default_factory=set)
    _awake: TimeAwake = field(init=False)

    def __post_init__(self) -> None:
        self._awake = TimeAwake(self.world)

    def check(self) -> None:
        self._all_of(self._always())

    def check_settled(self) -> None:
        self._all_of(self._settled())

    def _all_of(self, wrong: Iterator[tuple[str, str]]) -> None:
        for name, sentence in wrong:
            if self.watched is None or name in self.watched:
                raise BrokenError(name, sentence)

    def _always(self) -> Iterator[tuple[str, str]]:
        passed_s = self._awake.passed_s()
        members = self.fleet.members
        closed = {one.id for one in members if one.said in ("paused", "draining") and one.machine.reachable}
        self.closed_for_s = self._grown(self.closed_for_s, closed, passed_s)
        lost = {one.id for one in members if not one.machine.reachable and one.machine.is_dark}
        self.lost_for_s = self._grown(self.lost_for_s, lost, passed_s)
        for member in members:
            yield from self._started_on(member)
        self.started = {one.spec.replica_id for one in self.world.running()}
        yield from self._not_replaced()
        for machine in self.world.former:
            for later_s, call in machine.spoken_to:
                if later_s > _LET_GO_AFTER_S:
                    yield "a machine that left is nobody's", f"{call} of {machine.name} {later_s:.0f} s later"

    def _started_on(self, member: Member) -> Iterator[tuple[str, str]]:
        for_s = self.closed_for_s.get(member.id, 0.0)
        for one in member.machine.running():
            if for_s > _TAKES_NONE_AFTER_S and one.spec.replica_id not in self.started:
                sentence = (
                    f"{one.spec.replica_id} starts on {member.machine.name}, {member.said} for {for_s:.0f} s"
                )
                yield "nothing starts where nothing may", sentence

    def _not_replaced(self) -> Iterator[tuple[str, str]]:
        lost = {name: for_s for name, for_s in self.lost_for_s.items() if for_s > _REPLACED_AFTER_S}
        if not lost:
            return
        engines = ", ".join(f"'{name}'" for name in sorted(lost))
        for replica, engine in self.world.query(_LIVE_THERE.format(engines=engines)):
            yield (
                "what a lost machine had is replaced",
                f"{replica} counts as serving on {engine}, which nobody has reached for {lost[engine or '']:.0f} s",
            )

    def _settled(self) -> Iterator[tuple[str, str]]:
        yield from self._always()
        for member in self.fleet.members:
            if member.said == "draining" and (left := member.machine.running()):
                names = ", ".join(one.spec.replica_id for one in left)
                yield "a drained machine gets empty", f"{names} still on {member.machine.name}"

    def _grown(self, before: dict[str, float], names: set[str], passed_s: float) -> dict[str, float]:
        """Time in which nobody led, or Postgres was away, does not count: nobody could see anything. Nor while the gateway says
        nothing: what it sends requests to may serve them."""
        gateway = self.world.processes["gateway"]
        speaks = gateway.alive and not gateway.stopped
        if not speaks or not is_led(self.world) or self.world.now_s() < self.world.postgres_ill_until_s:
            return {}
        return {one: before.get(one, -passed_s) + passed_s for one in sorted(names)}
