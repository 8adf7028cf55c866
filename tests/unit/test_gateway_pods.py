"""Which gateways ran in Pods that are gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.entrypoints.gateway_pods import gone_gateways, pod_gateway_id
from moorage.entrypoints.pull_relay import holder_name, peer_of
from moorage.kit.ids import new_gateway_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(uid: str, *, phase: str = "Running", ends_at: datetime | None = None) -> dict[str, Any]:
    ending = {} if ends_at is None else {"deletionTimestamp": ends_at.isoformat().replace("+00:00", "Z")}
    return {"metadata": {"uid": uid, **ending}, "status": {"phase": phase}}


def test_one_without_a_pod_is_gone() -> None:
    known = [pod_gateway_id(uid) for uid in ("a", "b", "c")]
    assert gone_gateways(known, [pod("a"), pod("c", phase="Failed")], NOW) == sorted(known[1:])


def test_one_outside_the_cluster_is_nobodys_to_forget() -> None:
    for _ in range(1000):
        assert gone_gateways([new_gateway_id()], [], NOW) == []


def test_one_that_ends_has_its_time() -> None:
    """Its grace period, and a while: after that its node is silent, and it may never end."""
    known = [pod_gateway_id("a")]
    assert gone_gateways(known, [pod("a", ends_at=NOW + timedelta(seconds=30))], NOW) == []
    assert gone_gateways(known, [pod("a", ends_at=NOW - timedelta(seconds=29))], NOW) == []
    assert gone_gateways(known, [pod("a", ends_at=NOW - timedelta(seconds=31))], NOW) == known


def test_a_leader_says_where_its_images_are() -> None:
    assert peer_of(holder_name("pod-1:1", "10.0.0.7:5051")) == ("10.0.0.7", 5051)
    assert peer_of(holder_name("pod-1:1", "[fd00::7]:5051")) == ("fd00::7", 5051)
    assert peer_of(holder_name("host:4711", None)) is None
