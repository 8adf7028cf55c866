"""The tunnel's addresses, keys, peers and changes: pure, so by tables and by Hypothesis."""

import base64
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.tunnel.addresses import hub_address, machine_address
from moorage.tunnel.difference import Present, PresentPeer, parse_dump, peer_changes
from moorage.tunnel.keys import (
    is_public_key,
    load_or_create_private_key,
    new_private_key,
    public_key_of,
    replace_private_key,
)
from moorage.tunnel.peers import HubEnd, MachineEnd, Peer, hub_peers, machine_peers
from moorage.tunnel.rules import NodePorts, chain_names, door_chain, hub_chains, machine_chains, user_chain

NETWORK = IPv4Network("198.19.0.0/16")
TINY = IPv4Network("198.19.0.0/23")

machine_ends = st.builds(
    MachineEnd,
    st.uuids().map(str),
    st.integers(0, 40).map(lambda number: str(NETWORK[256 + number])),
    st.integers(0, 40).map(lambda number: f"key-{number:02}"),
)
any_rows = st.lists(machine_ends, max_size=30, unique_by=lambda end: end.machine_id)
rows_as_constrained = st.lists(
    machine_ends, max_size=30, unique_by=(lambda end: end.address, lambda end: end.public_key)
)


@given(any_rows)
def test_no_two_peers_share_anything(rows: list[MachineEnd]) -> None:
    found = hub_peers(rows)
    assert len({peer.public_key for peer in found.peers}) == len(found.peers)
    assert len({peer.address for peer in found.peers}) == len(found.peers)
    assert len(found.peers) + len(found.ambiguous) == len(rows)


@given(rows_as_constrained, st.data())
@pytest.mark.long
def test_one_that_goes_changes_no_other(rows: list[MachineEnd], data: st.DataObject) -> None:
    before = hub_peers(rows)
    assert before.ambiguous == frozenset()
    if not rows:
        return
    gone = data.draw(st.sampled_from(rows))
    after = hub_peers(row for row in rows if row is not gone)
    assert after.peers == tuple(peer for peer in before.peers if peer.public_key != gone.public_key)
    assert peer_changes(_as_present(before.peers), after.peers) == [["peer", gone.public_key, "remove"]]


@given(any_rows)
def test_order_of_rows_does_not_matter(rows: list[MachineEnd]) -> None:
    assert hub_peers(rows) == hub_peers(reversed(rows))


@given(rows_as_constrained)
def test_what_is_there_needs_no_change(rows: list[MachineEnd]) -> None:
    peers = hub_peers(rows).peers
    assert peer_changes(_as_present(peers), peers) == []


def test_a_shared_key_makes_neither_a_peer() -> None:
    rows = [
        MachineEnd("a", "198.19.1.0", "key-1"),
        MachineEnd("b", "198.19.1.1", "key-1"),
        MachineEnd("c", "198.19.1.2", "key-2"),
    ]
    found = hub_peers(rows)
    assert [peer.public_key for peer in found.peers] == ["key-2"]
    assert found.ambiguous == {"a", "b"}


def test_a_machine_dials_every_hub_and_nobody_else() -> None:
    hubs = [
        HubEnd("h2", "198.19.0.2", "key-2", "two.example:51820"),
        HubEnd("h1", "198.19.0.1", "key-1", "one.example:51820"),
    ]
    assert machine_peers(hubs) == (
        Peer("key-1", "198.19.0.1", "one.example:51820", 25),
        Peer("key-2", "198.19.0.2", "two.example:51820", 25),
    )


def test_a_new_key_takes_the_address_over_after_the_old_one_let_go() -> None:
    present = _as_present((Peer("old", "198.19.1.0"),))
    assert peer_changes(present, (Peer("new", "198.19.1.0"),)) == [
        ["peer", "old", "remove"],
        ["peer", "new", "allowed-ips", "198.19.1.0/32"],
    ]


def test_where_a_machine_dials_from_is_left_alone() -> None:
    present = _as_present((Peer("key", "198.19.1.0"),))
    roamed = replace(present, peers=(replace(present.peers[0], endpoint="203.0.113.9:4711"),))
    assert peer_changes(roamed, (Peer("key", "198.19.1.0"),)) == []
    assert peer_changes(roamed, (Peer("key", "198.19.1.0", "203.0.113.1:51820", 25),)) == [
        ["peer", "key", "endpoint", "203.0.113.1:51820", "persistent-keepalive", "25"]
    ]


def test_dump() -> None:
    text = (
        "private\tpublic\t51820\toff\n"
        "key-1\t(none)\t203.0.113.9:4711\t198.19.1.0/32\t1763370000\t100\t200\toff\n"
        "key-2\t(none)\t(none)\t(none)\t0\t0\t0\t25\n"
    )
    assert parse_dump(text) == Present(
        "public",
        51820,
        (
            PresentPeer("key-1", "203.0.113.9:4711", ("198.19.1.0/32",), 1763370000, 0),
            PresentPeer("key-2", None, (), 0, 25),
        ),
    )
    assert parse_dump("(none)\t(none)\t0\toff\n") == Present(None, 0, ())


def test_addresses_follow_one_another() -> None:
    taken: list[int] = []
    for expected in ("198.19.1.0", "198.19.1.1", "198.19.1.2"):
        address = machine_address(NETWORK, taken)
        assert str(address) == expected
        taken.append(int(address))
    taken.remove(int(IPv4Address("198.19.1.1")))
    assert str(machine_address(NETWORK, taken)) == "198.19.1.3", "a freed address rests"


def test_addresses_come_again_when_there_are_no_others() -> None:
    every = [int(TINY[number]) for number in range(256, 511)]
    with pytest.raises(ValueError, match="no address"):
        machine_address(TINY, every)
    every.remove(int(TINY[300]))
    assert machine_address(TINY, every) == TINY[300]


@given(st.sets(st.integers(0, 511).map(lambda number: TINY[number]), max_size=200))
def test_hubs_and_machines_never_share_an_address(taken: set[IPv4Address]) -> None:
    numbers = {int(address) for address in taken}
    hub, machine = hub_address(TINY, numbers), machine_address(TINY, numbers)
    assert hub not in taken
    assert machine not in taken
    assert hub < TINY[256] <= machine < TINY[511]


A_KEY = public_key_of(base64.b64encode(bytes(range(32))).decode())
"""The same in every process: tests are named by it."""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key",
        "A" * 44,  # no padding
        "A" * 43 + "=",  # nothing but zeros
        "A" * 42 + "B=",  # the spare bits of base64
        f"{A_KEY}\n",
        A_KEY[:-1],
        f"{A_KEY} remove",
    ],
)
def test_what_is_no_public_key(text: str) -> None:
    assert not is_public_key(text)


def test_keys(tmp_path) -> None:  # type: ignore[no-untyped-def]
    private = new_private_key()
    assert is_public_key(public_key_of(private))
    path = tmp_path / "key"
    replace_private_key(path, private)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create_private_key(path) == private
    assert load_or_create_private_key(tmp_path / "other") == load_or_create_private_key(tmp_path / "other")


def test_each_chain_can_be_taken_away_again() -> None:
    interface = "moorwg-abcdef"
    chains = [
        *hub_chains(interface, "198.19.0.1"),
        *machine_chains(interface, "198.19.1.0", ["198.19.0.1"], NodePorts(7444, (20000, 29999))),
        user_chain(interface, (0, 100)),
        door_chain(interface),
    ]
    assert {chain.name for chain in chains} == chain_names(interface)
    assert all(len(chain.name) <= 28 for chain in chains), "iptables takes no longer name"
    for chain in chains:
        assert chain.rules[-1].endswith(("-j DROP", "--reject-with icmp-port-unreachable"))


def _as_present(peers: tuple[Peer, ...]) -> Present:
    return Present(
        "own",
        51820,
        tuple(
            PresentPeer(peer.public_key, peer.endpoint, (f"{peer.address}/32",), 0, peer.keepalive_s)
            for peer in peers
        ),
    )
