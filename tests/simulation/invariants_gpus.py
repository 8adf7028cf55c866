"""GPUs: one replica on each, none on what is broken, and nobody pays for time without one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.gpus import Gpus
from tests.simulation.invariants import BrokenError, Invariants
from tests.simulation.passing import TimeAwake, is_led
from tests.simulation.world import World

_KNOWN_AFTER_S = 200.0
"""All machines are described anew every 45 s by whoever leads."""
_NOTICED_AFTER_S = 50.0 + 60.0
"""GPUs in use are looked at four times in a minute; and the pass that hears of it may wait for a slow engine's answer."""
_GONE_AFTER_S = 400.0
"""What lost its GPU drains for as long as its last request takes, and ends."""
_UNBILLED = """
SELECT h.id || ' of slot ' || h.slot || ' of ' || h.container_id || ' goes on, and nothing serves since its GPU broke'
FROM hours h WHERE h.state = 'paid' AND h.paused_at IS NULL AND h.due_at IS NOT NULL AND h.expires_at > sim.clock_timestamp()
AND (SELECT r.reason = 'gpu_lost' AND r.state IN ('stopped', 'removed') FROM replicas r
    WHERE r.container_id = h.container_id AND r.slot = h.slot AND r.instance_type = h.instance_type
    ORDER BY r.created_at DESC, r.id DESC LIMIT 1)
"""
NAMES = (
    "no GPU twice",
    "no GPU of a machine that lost it",
    "what lost its GPU is replaced",
    "a lost GPU's time is not billed",
)


@dataclass
class GpuInvariants:
    world: World
    gpus: Gpus
    machines: Invariants
    watched: frozenset[str] | None = None
    on_broken_for_s: dict[str, float] = field(default_factory=dict)
    """By replica: for how long it has run on a broken GPU while somebody led."""
    unbilled_for_s: dict[str, float] = field(default_factory=dict)
    broken_for_s: dict[str, float] = field(default_factory=dict)
    """By device: for how long somebody could have known of it."""
    started: set[str] = field(default_factory=set)
    """Replicas that ran when they were looked at last: what breaks under them is no start."""
    _awake: TimeAwake = field(init=False)

    def __post_init__(self) -> None:
        self._awake = TimeAwake(self.world)

    def check(self) -> None:
        for name, sentence in self._wrong():
            if self.watched is None or name in self.watched:
                raise BrokenError(name, sentence)

    def check_settled(self) -> None:
        self.check()

    def _wrong(self) -> Iterator[tuple[str, str]]:
        """Time in which nobody led does not count: nobody looked."""
        passed_s = self._awake.passed_s()
        yield from self._twice()
        yield from self._started_on_broken(passed_s)
        yield from self._left_on_broken(passed_s)
        yield from self._billed(passed_s)

    def _twice(self) -> Iterator[tuple[str, str]]:
        running = [one.spec for one in self.world.running() if one.spec.replica_id not in self.machines.late]
        taken = Counter(device for spec in running for device in spec.gpu_device_ids)
        for device, count in sorted(taken.items()):
            if count > 1:
                yield "no GPU twice", f"{count} replicas run on {device}"

    def _started_on_broken(self, passed_s: float) -> Iterator[tuple[str, str]]:
        running = self.world.running()
        self.broken_for_s = self._grown(self.broken_for_s, set(self.gpus.broken_at_s), passed_s)
        for one in running:
            if one.spec.replica_id in self.started:
                continue
            for device in one.spec.gpu_device_ids:
                if (for_s := self.broken_for_s.get(device, 0.0)) > _KNOWN_AFTER_S:
                    sentence = f"{one.spec.replica_id} was started on {device}, broken for {for_s:.0f} s"
                    yield "no GPU of a machine that lost it", sentence
        self.started = {one.spec.replica_id for one in running}

    def _left_on_broken(self, passed_s: float) -> Iterator[tuple[str, str]]:
        running = self.world.running()
        on_broken = {
            one.spec.replica_id
            for one in running
            if not self.gpus.broken_at_s.keys().isdisjoint(one.spec.gpu_device_ids)
        }
        self.on_broken_for_s = self._grown(self.on_broken_for_s, on_broken, passed_s)
        unnoticed = {
            replica_id
            for (replica_id,) in self.world.query(
                "SELECT id FROM replicas WHERE state IN ('ready', 'routed')"
            )
            if replica_id in on_broken
        }
        for replica_id, for_s in self.on_broken_for_s.items():
            if for_s > (_NOTICED_AFTER_S if replica_id in unnoticed else _GONE_AFTER_S):
                yield (
                    "what lost its GPU is replaced",
                    f"{replica_id} has run on a broken GPU for {for_s:.0f} s",
                )

    def _billed(self, passed_s: float) -> Iterator[tuple[str, str]]:
        goes_on = {sentence or "" for (sentence,) in self.world.query(_UNBILLED)}
        self.unbilled_for_s = self._grown(self.unbilled_for_s, goes_on, passed_s)
        for sentence, for_s in self.unbilled_for_s.items():
            if for_s > 0:
                yield "a lost GPU's time is not billed", sentence

    def _grown(self, before: dict[str, float], names: set[str], passed_s: float) -> dict[str, float]:
        if not is_led(self.world) or self.world.now_s() < self.world.postgres_ill_until_s:
            return {}
        return {one: before.get(one, -passed_s) + passed_s for one in sorted(names)}
