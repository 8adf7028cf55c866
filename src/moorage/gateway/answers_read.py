"""What single replicas answered, from HAProxy's counters of a slot and its servers. Pure.

Counters begin at zero with each worker, and with the server. So what is counted is the growth since the last look, and where a
counter is lower than it was, all of it.

A server's own 5xx are counted with it. Where it breaks a connection without an answer, the gateway answers 502, which
is counted with the slot alone; the server counts each broken try, also those that another replica answered in the end, and some of
them twice. So what it broke is as much as it counted, and no more than the gateway answered in its place.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from moorage.gateway.stats import WHOLE_SLOT, Row
from moorage.kit.ids import ReplicaId

_CLASSES = ("hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other")


@dataclass(frozen=True)
class Counters:
    """Of one server, since its worker or itself began."""

    answers: int = 0
    failed: int = 0
    """Of those: 500 and above."""
    broken: int = 0

    def since(self, before: "Counters") -> "Counters":
        if self.answers < before.answers or self.failed < before.failed or self.broken < before.broken:
            return self
        return Counters(
            self.answers - before.answers, self.failed - before.failed, self.broken - before.broken
        )


@dataclass(frozen=True)
class SlotAnswers:
    failed: int
    """Answers of 500 and above, the gateway's own included."""
    servers: Mapping[ReplicaId, Counters]


@dataclass(frozen=True)
class Answers:
    """Of one replica, in some time."""

    answers: int
    errors: int


def slot_answers(rows: Sequence[Row]) -> SlotAnswers:
    """From `show stat` of one slot and its servers."""
    servers = {
        ReplicaId(row["svname"]): Counters(
            sum(_number(row, name) for name in _CLASSES), _number(row, "hrsp_5xx"), _number(row, "eresp")
        )
        for row in rows
        if row["svname"] != WHOLE_SLOT
    }
    return SlotAnswers(sum(_number(row, "hrsp_5xx") for row in rows if row["svname"] == WHOLE_SLOT), servers)


@dataclass
class Growth:
    """From look to look."""

    _before: dict[int, SlotAnswers] = field(default_factory=dict)

    def look(self, now: Mapping[int, SlotAnswers], new: Collection[ReplicaId]) -> dict[ReplicaId, Answers]:
        """`now` by slot. Of replicas that are looked at for the first time, only the new ones are counted from their
        beginning."""
        before, self._before = self._before, dict(now)
        found: dict[ReplicaId, Answers] = {}
        for slot, answers in now.items():
            found |= _grown(answers, before.get(slot), new)
        return found


def _grown(
    now: SlotAnswers, before: SlotAnswers | None, new: Collection[ReplicaId]
) -> dict[ReplicaId, Answers]:
    if before is None:
        # Nothing is known of the slot yet; what is new in it answered little.
        before = SlotAnswers(now.failed, {one: Counters() for one in now.servers if one in new})
    grown = {
        one: counters.since(before.servers.get(one, Counters()))
        for one, counters in now.servers.items()
        if one in before.servers or one in new
    }
    failed = now.failed - before.failed if now.failed >= before.failed else now.failed
    in_their_place = max(failed - sum(one.failed for one in grown.values()), 0)
    found = {}
    for one, counters in grown.items():
        broken = min(counters.broken, in_their_place)
        if counters.answers or broken:
            found[one] = Answers(counters.answers + broken, counters.failed + broken)
    return found


def _number(row: Row, name: str) -> int:
    return int(row[name] or 0)
