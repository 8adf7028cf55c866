"""Who may use the engine next, and who never has to wait for whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.reconciler.places import Kind, Places, Share, Ticket, shares_on

SHARES = shares_on(cores=8)


def tickets(kind: Kind, organization_id: str, count: int) -> list[Ticket]:
    return [Ticket(f"{organization_id}-{kind}-{number}", kind, organization_id) for number in range(count)]


def ask_all(places: Places, wanted: list[Ticket]) -> None:
    for ticket in wanted:
        places.ask(ticket)


def test_stops_take_no_place_of_a_start() -> None:
    places = Places(SHARES)
    ask_all(places, tickets(Kind.STOP, "org_a", 100))
    assert len(places.grant(Kind.STOP)) == SHARES[Kind.STOP].per_organization
    start = Ticket("start", Kind.START, "org_a")
    places.ask(start)
    assert places.grant(Kind.START) == [start]


@pytest.mark.parametrize("cores", [0, 1, 2, 4, 8, 64])
def test_another_organization_finds_a_place_at_once(cores: int) -> None:
    for kind, share in shares_on(cores).items():
        places = Places(shares_on(cores))
        ask_all(places, tickets(kind, "org_a", 1000))
        assert len(places.grant(kind)) == share.per_organization < share.total
        other = Ticket("other", kind, "org_b")
        places.ask(other)
        assert places.grant(kind) == [other]


@pytest.mark.parametrize("cores", [2, 4, 8])
@pytest.mark.parametrize("kind", [Kind.START, Kind.REMOVE])
def test_one_organizations_work_leaves_cores_to_its_neighbours(kind: Kind, cores: int) -> None:
    places = Places(shares_on(cores))
    ask_all(places, tickets(kind, "org_a", 100))
    assert 0 < len(places.grant(kind)) < cores


def test_places_follow_the_machine_once_it_is_known() -> None:
    places = Places(shares_on(cores=1))
    ask_all(places, tickets(Kind.START, "org_a", 10))
    assert len(places.grant(Kind.START)) == 1
    places.shares = shares_on(cores=8)
    assert len(places.grant(Kind.START)) == 5, "six in all"


def test_whoever_has_fewest_is_next_and_then_each_in_turn() -> None:
    places = Places({Kind.START: Share(total=2, per_organization=2)})
    first = tickets(Kind.START, "org_a", 6)
    ask_all(places, first)
    running = places.grant(Kind.START)
    ask_all(places, tickets(Kind.START, "org_b", 3) + tickets(Kind.START, "org_c", 3))
    order = []
    while running:
        places.give_back(running.pop(0))
        granted = places.grant(Kind.START)
        order += [ticket.organization_id for ticket in granted]
        running += granted
    assert order[:6] == ["org_b", "org_a", "org_c", "org_b", "org_a", "org_c"]
    assert len(order) == 10, "everybody's turn comes"


@given(
    st.lists(st.tuples(st.sampled_from(list(Kind)), st.sampled_from("abcdef"), st.booleans()), max_size=300)
)
def test_no_share_is_exceeded_and_nothing_is_forgotten(steps: list[tuple[Kind, str, bool]]) -> None:
    places, running, asked, granted = Places(SHARES), list[Ticket](), 0, 0
    for number, (kind, organization_id, ends_one) in enumerate(steps):
        places.ask(Ticket(str(number), kind, organization_id))
        asked += 1
        if ends_one and running:
            places.give_back(running.pop(0))
        for any_kind in Kind:
            running += (new := places.grant(any_kind))
            granted += len(new)
        for any_kind, share in SHARES.items():
            its = [one.organization_id for one in running if one.kind is any_kind]
            assert len(its) <= share.total
            assert all(its.count(name) <= share.per_organization for name in its)
    while running:
        places.give_back(running.pop(0))
        for any_kind in Kind:
            running += (new := places.grant(any_kind))
            granted += len(new)
    assert granted == asked
