"""Who may wait for a container to wake, and how much of what all share one organization gets."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.messages import Refusal, parse_head
from moorage.gateway.holding.places import Held, Kept, Places

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SMALL = HoldLimits(per_container=2, at_once=5, body_bytes=10, bytes_at_once=15, own_bytes=0)


def taken(places: Places, container_id: str, organization_id: str, key_id: str | None = None) -> Held:
    held = places.take(container_id, organization_id, key_id, NOW)
    assert held is not None
    return held


def taken_by(places: Places, organization_id: str) -> int:
    """Until there is none left for it, in as many containers as it takes."""
    count = 0
    while places.take(f"ctr_{organization_id}_{count // 100}", organization_id, None, NOW) is not None:
        count += 1
    return count


async def test_places_are_bounded_by_container_and_in_all() -> None:
    places = Places(SMALL)
    first, second = taken(places, "a", "x", "key_1"), taken(places, "a", "x")
    assert places.take("a", "x", None, NOW) is None
    taken(places, "b", "y")
    taken(places, "c", "z")
    assert places.take("d", "z", None, NOW) is None
    assert places.waiting() == ["a", "b", "c"]
    refusal = Refusal(503, "x", "y")
    places.answer("a", refusal)
    assert (first.answer.result(), second.answer.result()) == (refusal, refusal)
    assert places.waiting() == ["b", "c"]


async def test_whoever_leaves_twice_gives_back_once() -> None:
    places = Places(SMALL)
    first, second = taken(places, "a", "x"), taken(places, "a", "x")
    kept = [Kept("x"), Kept("x")]
    assert [places.take_bytes(one, 4) for one in kept] == [4, 4]
    places.leave(first)
    places.leave(first)
    places.give_back_all_bytes(kept[0])
    places.give_back_all_bytes(kept[0])
    assert (places.bytes_held, places.count(), places.count_of("x")) == (4, 1, 1)
    places.leave(second)
    assert (places.bytes_held, places.count(), places.count_of("x")) == (4, 0, 0)
    places.give_back_all_bytes(kept[1])
    assert (places.bytes_held, places._shares) == (0, {})


async def test_the_key_that_wakes_is_of_whoever_came_first() -> None:
    places = Places(SMALL)
    assert places.take("a", "x", "key_late", NOW) is not None
    assert places.take("a", "x", "key_early", NOW - timedelta(seconds=1)) is not None
    assert places.a_key("a") == "key_early"


async def test_no_organization_takes_the_places_of_all() -> None:
    limits = HoldLimits()
    places = Places(limits)
    assert taken_by(places, "greedy") == limits.at_once // 2
    assert taken_by(places, "another") == limits.at_once // 4
    taken(places, "ctr_c", "third")


async def test_no_organization_takes_the_bytes_of_all_and_a_small_body_is_always_whole() -> None:
    limits = HoldLimits(own_bytes=100, body_bytes=1000, bytes_at_once=10_000)
    places = Places(limits)
    for _ in range(100):
        places.take_bytes(Kept("greedy"), 1000)
    assert places.bytes_held - 100 * limits.own_bytes <= limits.bytes_at_once / 2 + limits.body_bytes
    assert places.take_bytes(Kept("other"), 1000) == 1000
    late = Kept("greedy")
    assert [places.take_bytes(late, 70), places.take_bytes(late, 70), places.take_bytes(late, 70)] == [
        70,
        30,
        0,
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(0, 400), st.booleans())))
async def test_what_is_counted_is_what_is_there(steps: list[tuple[int, int, int, bool]]) -> None:
    """Whatever comes, is read in part and leaves; and at the end nothing is counted."""
    limits = HoldLimits(per_container=3, at_once=8, own_bytes=100, body_bytes=300, bytes_at_once=500)
    places = Places(limits)
    there: list[tuple[Held, Kept]] = []
    for number, wanted, unused, leaves in steps:
        organization_id = f"org_{number % 2}"
        held = places.take(f"ctr_{number}", organization_id, None, NOW)
        if held is not None:
            kept = Kept(organization_id)
            room = places.take_bytes(kept, wanted)
            assert 0 <= room <= wanted
            places.give_back_bytes(kept, min(unused, room))
            there.append((held, kept))
        if leaves and there:
            held, kept = there.pop(0)
            places.leave(held)
            places.give_back_all_bytes(kept)
        assert places.bytes_held == sum(kept.bytes for _, kept in there)
        assert places.bytes_held <= limits.bytes_at_once + limits.own_bytes * limits.at_once
        assert places.count() == len(there) == places.count_of("org_0") + places.count_of("org_1")
    for held, kept in there:
        places.leave(held)
        places.give_back_all_bytes(kept)
    assert (places.bytes_held, places.count(), places._shared_bytes, places._shares) == (0, 0, 0, {})


def test_a_request_without_an_organization_has_the_share_of_its_container() -> None:
    def organization_of(value: str) -> str:
        lines = ["POST / HTTP/1.1", "X-Moorage-Container: ctr_a", f"X-Moorage-Organization: {value}"]
        return parse_head("\r\n".join(lines).encode() + b"\r\n\r\n").organization_id

    assert organization_of("org_" + "a" * 20) == "org_" + "a" * 20
    assert organization_of("") == organization_of("org_b") == "ctr_a"
