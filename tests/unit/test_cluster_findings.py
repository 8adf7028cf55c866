"""What `moor kubernetes check` says of a cluster, from what the cluster said."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.entrypoints.kubernetes.findings import POLICIES, Facts, Level, findings


def node(
    name: str, *, gpus: int = 0, labels: dict[str, str] | None = None, ready: bool = True
) -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi"}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "status": {
            "allocatable": {**allocatable, **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
        },
    }


COMPLETE = Facts(
    version="v1.33.1",
    nodes=[node("one"), node("two", gpus=2, labels={"nvidia.com/gpu.product": "NVIDIA-H200"})],
    policies=frozenset(POLICIES),
    policies_served=True,
    daemon_sets=["calico-node"],
    account="admin",
    controller="system:serviceaccount:moorage:moorage-controller",
    denied=[],
    secrets=frozenset({"moorage-database", "moorage-keys"}),
    has_dns=True,
    closed_nodes={},
)


def test_nothing_is_missing() -> None:
    assert [one for one in findings(COMPLETE) if one.level is not Level.GOOD] == []


NVIDIA = {"feature.node.kubernetes.io/pci-10de.present": "true"}
UNLIMITED = node("three")
del UNLIMITED["status"]["allocatable"]["ephemeral-storage"]


@pytest.mark.parametrize(
    ("change", "says", "help_"),
    [
        ({"version": "v1.31.9"}, "v1.31.9", "1.32 or newer"),
        ({"version": "unknown"}, "unknown", "1.32 or newer"),
        ({"nodes": []}, "none is ready", "kubectl get nodes"),
        ({"nodes": [node("a", ready=False)]}, "none is ready", "kubectl get nodes"),
        ({"policies_served": False}, "has no ValidatingAdmissionPolicies", "admissionregistration.k8s.io/v1"),
        ({"policies": frozenset(POLICIES[:2])}, "moorage-role-bindings", "kubectl apply"),
        ({"denied": ["create namespaces"]}, "create namespaces", "kubectl apply"),
        ({"closed_nodes": {"one": "a Pod there reached 10.0.0.1:10250"}}, "10.0.0.1:10250", "Calico"),
        ({"has_dns": False}, "kube-dns", "CoreDNS"),
        ({"nodes": [node("a", labels=NVIDIA)]}, "does not offer it", "device plugin"),
        ({"nodes": [node("a", gpus=4)]}, "does not name the model", "kubectl label node a"),
        ({"nodes": [UNLIMITED]}, "three", "localStorageCapacityIsolation"),
        ({"secrets": frozenset({"moorage-keys"})}, "moorage-database is not there", "--from-literal=dsn"),
        ({"secrets": frozenset({"moorage-database"})}, "moorage-keys is not there", "moor new-keys"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(change: dict[str, Any], says: str, help_: str) -> None:
    missing = [one for one in findings(replace(COMPLETE, **change)) if one.stops]
    assert len(missing) == 1, missing
    assert says in missing[0].says
    assert help_ in str(missing[0].help)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policies": None}, "may not read"),
        ({"denied": None}, "may not check"),
        ({"waived": True}, "isolation is waived"),
        ({"closed_nodes": None}, "calico-node should enforce them"),
        ({"closed_nodes": None, "daemon_sets": ["kube-flannel-ds"]}, "nothing visible here"),
        ({"nodes": [node("a"), node("b", ready=False)]}, "not ready, or cordoned: b"),
        (
            {
                "nodes": [
                    node("a"),
                    node(
                        "b",
                        gpus=1,
                        labels={
                            "nvidia.com/gpu.product": "X",
                            "nvidia.com/gpu.sharing-strategy": "time-slicing",
                        },
                    ),
                ]
            },
            "shares its GPUs",
        ),
    ],
)
def test_what_cannot_be_known_stops_nobody(change: dict[str, Any], says: str) -> None:
    found = findings(replace(COMPLETE, **change))
    assert not any(one.stops for one in found)
    assert any(says in one.says for one in found if one.level is Level.NOTE), found
