"""Counters of slots become counts of containers, whatever happens to slots and workers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from moorage.gateway.usage import SlotCounters, Usage
from moorage.kit.ids import ContainerId

A, B = ContainerId("ctr_a"), ContainerId("ctr_b")


def test_a_slot_that_changes_hands_is_looked_at_before() -> None:
    usage = Usage()
    usage.own(1, {1: A})
    usage.look(1, {1: SlotCounters(requests=5)})
    assert usage.to_look_at(1, {1: B}) == {1}
    usage.look(1, {1: SlotCounters(requests=7)})
    usage.own(1, {1: B})
    assert usage.to_look_at(1, {1: B}) == set()
    usage.look(1, {1: SlotCounters(requests=8)})
    assert {name: use.requests for name, use in usage.take().items()} == {A: 7, B: 1}


def test_what_was_before_our_time_is_not_counted() -> None:
    usage = Usage()
    usage.own(1, {1: A})
    usage.begin(1, {1: SlotCounters(requests=100)})
    usage.look(1, {1: SlotCounters(requests=103, in_flight=2)})
    taken = usage.take()[A]
    assert (taken.requests, taken.in_flight) == (3, 2)


def test_an_old_worker_counts_beside_the_new_one() -> None:
    usage = Usage()
    usage.own(1, {1: A})
    usage.look(1, {1: SlotCounters(requests=5, in_flight=3)})
    usage.own(2, {1: A})
    usage.look(2, {1: SlotCounters(requests=2, in_flight=1)})
    taken = usage.take()[A]
    assert (taken.requests, taken.in_flight) == (7, 4)
    usage.look(1, {1: SlotCounters(requests=6)})
    usage.forget_others({2})
    taken = usage.take()[A]
    assert (taken.requests, taken.in_flight) == (1, 1)


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    usage = Usage()
    usage.own(1, {1: A})
    usage.look(1, {1: SlotCounters(requests=5)})
    usage.look(1, {1: SlotCounters(requests=4)})
    usage.look(1, {1: SlotCounters(requests=6)})
    assert usage.take()[A].requests == 6


steps = st.lists(
    st.tuples(st.sampled_from(["ask", "look", "hand over", "reload", "take"]), st.integers(1, 3)), max_size=60
)


@given(steps)
def test_every_request_is_counted_once(steps: list[tuple[str, int]]) -> None:
    usage, sent, counted = Usage(), Counter[ContainerId](), Counter[ContainerId]()
    pid, new = 1, iter(range(1000))
    owners = {slot: ContainerId(f"ctr_{next(new)}") for slot in (1, 2, 3)}
    served: Counter[tuple[int, int]] = Counter()
    usage.own(pid, owners)

    def look(slots: set[int]) -> None:
        usage.look(pid, {slot: SlotCounters(requests=served[pid, slot]) for slot in slots})

    def take() -> None:
        counted.update({name: use.requests for name, use in usage.take().items()})

    for step, slot in steps:
        if step == "ask":
            served[pid, slot] += 1
            sent[owners[slot]] += 1
        elif step == "look":
            look({slot})
        elif step == "take":
            take()
        elif step == "hand over":
            owners = owners | {slot: ContainerId(f"ctr_{next(new)}")}
            look(usage.to_look_at(pid, owners))
            usage.own(pid, owners)
        else:
            look({1, 2, 3})
            pid += 1
            usage.own(pid, owners)
            usage.forget_others({pid})
    look({1, 2, 3})
    take()
    assert counted == sent
