"""Reading what a cluster says: amounts, nodes, logs, figures."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.engines.base import GpuHandover
from moorage.engines.kubernetes.figures import readings_of
from moorage.engines.kubernetes.logs import PART_BYTES, LineParser, LogPosition
from moorage.engines.kubernetes.nodes import (
    Isolation,
    Requested,
    capacities,
    node_seen,
    product_of,
    requested_by,
)
from moorage.engines.kubernetes.quantities import amount_of, bytes_of, millis_of
from moorage.kit.errors import EngineError


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [
        ("0", 0),
        ("1", 1),
        ("250m", Decimal("0.25")),
        ("1.5", Decimal("1.5")),
        ("64Ki", 65536),
        ("1Gi", 2**30),
        ("2M", 2_000_000),
        ("1e3", 1000),
        ("12E2", 1200),
        ("128974848", 128974848),
        ("100n", Decimal("1e-7")),
    ],
)
def test_quantities(quantity: str, amount: Decimal) -> None:
    assert amount_of(quantity) == amount


@pytest.mark.parametrize("quantity", ["", "1 Gi", "Gi", "1KiB", "abc", "1m1"])
def test_what_is_no_quantity(quantity: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        amount_of(quantity)


def node(name: str = "node-1", **changes: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/arch": "amd64", **changes.get("labels", {})}
    ready = {
        "type": "Ready",
        "status": changes.get("ready", "True"),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": changes.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "3900m", "memory": "15Gi", **changes.get("allocatable", {})},
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "ExternalIP", "address": "203.0.113.7"},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def capacity_of(one: dict[str, Any], foreign: Requested | None = None) -> Any:
    taken = {"node-1": foreign} if foreign is not None else {}
    return capacities([one], taken, cluster_uid="c", isolation=lambda _: Isolation())


def test_what_a_node_has_left() -> None:
    (found,) = capacity_of(node(), Requested(900, 5 * 2**30))
    assert (found.cpu_millis, found.memory_bytes) == (3000, 10 * 2**30)
    assert (found.name, found.architecture, found.infrastructure) == ("node-1", "amd64", "operator")
    assert found.engine_identity == "c/uid-node-1"
    assert found.takes_replicas


def test_a_cordoned_node_is_to_be_empty_and_a_silent_one_takes_nothing() -> None:
    (cordoned,) = capacity_of(node(spec={"unschedulable": True}))
    assert (cordoned.schedulable, cordoned.draining) == (False, True)
    (silent,) = capacity_of(node(ready="Unknown"))
    assert (silent.schedulable, silent.draining) == (False, False)
    seen = node_seen(node(ready="Unknown"))
    assert seen.unready_since == datetime(2026, 1, 1, tzinfo=UTC)
    assert seen.addresses == ("10.0.0.7", "203.0.113.7")
    assert seen.kubelet == ("10.0.0.7", 10250)


def test_the_control_planes_nodes_are_left_out_and_kubernetes_own_taints_pass() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    assert capacity_of(node(spec={"taints": [taint]})) == []
    own = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    assert len(capacity_of(node(spec={"taints": [own]}))) == 1


def test_gpus_are_counted_by_their_product() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/cuda.driver-version.full": "580.65.06",
        "nvidia.com/cuda.runtime-version.full": "13.0",
    }
    (found,) = capacity_of(node(labels=labels, allocatable={"nvidia.com/gpu": "8"}), Requested(gpus=2))
    assert [gpu.device_id for gpu in found.gpus] == [f"gpu-{index}" for index in range(6)]
    assert {(gpu.model, gpu.memory_bytes) for gpu in found.gpus} == {("NVIDIA H100 80GB HBM3", 81559 * 2**20)}
    assert (found.gpu_driver, found.cuda_version) == ("580.65.06", "13.0")
    assert found.gpu_handover == GpuHandover.RUNTIME
    assert product_of(found.gpus[0].model) == labels["nvidia.com/gpu.product"]


@pytest.mark.parametrize(
    ("labels", "because"),
    [
        ({}, "feature discovery"),
        (
            {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
            "shared",
        ),
    ],
)
def test_gpus_that_are_not_offered(labels: dict[str, str], because: str) -> None:
    (found,) = capacity_of(node(labels=labels, allocatable={"nvidia.com/gpu": "1"}))
    assert because in (found.gpus[0].unusable_because or "")


def test_what_others_request() -> None:
    def pod(**more: Any) -> dict[str, Any]:
        container = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        large = {"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
        spec = {"nodeName": "a", "containers": [container, container], "initContainers": [large], **more}
        return {"spec": spec, "status": {"phase": "Running"}}

    ended = {**pod(), "status": {"phase": "Failed"}}
    found = requested_by([pod(), pod(overhead={"cpu": "10m"}), ended, pod(nodeName=None)])
    assert found == {"a": Requested(2010, 256 * 2**20, 0)}


LINES = b"2026-01-02T03:04:05.000000006Z one\n2026-01-02T03:04:05.1Z two words\n2026-01-02T03:04:06Z \n"
BASE_NS = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 10**9


def test_log_lines() -> None:
    found = LineParser().feed(LINES)
    assert [(one.time_ns - BASE_NS, one.data, one.ends_line) for one in found] == [
        (6, b"one", True),
        (100_000_000, b"two words", True),
        (10**9, b"", True),
    ]


@given(st.lists(st.integers(1, 60)))
def test_log_lines_in_any_pieces(sizes: list[int]) -> None:
    parser, found, at = LineParser(), [], 0
    for size in sizes:
        found += parser.feed(LINES[at : at + size])
        at += size
    found += parser.feed(LINES[at:]) + parser.end()
    assert found == LineParser().feed(LINES)


@settings(max_examples=20)
@given(st.integers(0, 5 * PART_BYTES), st.integers(1000, 3 * PART_BYTES))
def test_a_long_line_is_cut_at_the_same_places_however_it_comes(length: int, size: int) -> None:
    line = b"2026-01-02T03:04:05Z " + b"x" * length + b"\n"
    parser, found = LineParser(), []
    for start in range(0, len(line), size):
        found += parser.feed(line[start : start + size])
    assert found == LineParser().feed(line)
    assert b"".join(one.data for one in found) == b"x" * length
    assert [one.ends_line for one in found] == [False] * (len(found) - 1) + [True]
    assert all(len(one.data) == PART_BYTES for one in found[:-1])


def test_the_last_line_needs_no_end() -> None:
    parser = LineParser()
    assert parser.feed(b"2026-01-02T03:04:05Z done") == []
    assert [(one.data, one.ends_line) for one in parser.end()] == [(b"done", True)]
    assert parser.end() == []


@pytest.mark.parametrize(
    "line", [b"unable to retrieve container logs for containerd://1\n", b"2026-01-02 x\n", b"\n"]
)
def test_a_line_without_a_time_is_no_line(line: bytes) -> None:
    with pytest.raises(EngineError):
        LineParser().feed(line)


def test_a_second_reading_repeats_nothing_and_leaves_nothing_out() -> None:
    text = b"".join(b"2026-01-02T03:04:0%dZ %d\n" % (index // 3, index) for index in range(12))
    lines = LineParser().feed(text)
    for read in range(len(lines) + 1):
        position = LogPosition(0)
        position.advance(lines[:read])
        again = [one for one in lines if one.time_ns >= position.at_ns and position.is_new(one)]
        assert lines[:read] + again == lines


def test_figures_of_replicas_alone() -> None:
    text = """# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="m-0-org-a",pod="rep-a"} 4.710169 1767323045123
container_cpu_usage_seconds_total{container="door",namespace="m-0-org-a",pod="rep-a"} 1.5 1767323045123
container_cpu_usage_seconds_total{container="main",namespace="m-0-org-a",pod="rep-b"} 2e-1 1767323045123
container_memory_working_set_bytes{container="main",namespace="m-0-org-a",pod="rep-a"} 1.7825792e+07 1767323045123
node_cpu_usage_seconds_total 1234.5 1767323045123
scrape_error 0
"""
    (found,) = readings_of(text).items()
    assert found[0] == ("m-0-org-a", "rep-a")
    assert (found[1].cpu_time_s, found[1].memory_bytes, found[1].time_ms) == (
        4.710169,
        17825792,
        1767323045123,
    )


def test_millis_and_bytes() -> None:
    assert (millis_of("1.5"), bytes_of("1Ki")) == (1500, 1024)
