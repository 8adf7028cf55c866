"""What a cluster lacks for Moorage, from what it said about itself: each with what to do. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from moorage.engines.kubernetes.nodes import GPU_RESOURCE, PRODUCT_LABEL, node_seen

LEAST_VERSION = (1, 32)
POLICIES = ("moorage-replicas", "moorage-namespaces", "moorage-role-bindings")
_ENFORCERS = (
    "calico",
    "cilium",
    "antrea",
    "kube-router",
    "weave",
    "ovn",
    "azure-npm",
    "anetd",
    "romana",
    "canal",
)
_NVIDIA = ("feature.node.kubernetes.io/pci-10de.present", "nvidia.com/gpu.present")
_SHARING = "nvidia.com/gpu.sharing-strategy"


class Level(StrEnum):
    GOOD = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    about: str
    level: Level
    says: str
    help: str | None = None

    @property
    def stops(self) -> bool:
        return self.level is Level.MISSING

    def line(self) -> str:
        first = f"{self.level:8}{self.about}: {self.says}"
        return first if self.help is None else f"{first}\n        → {self.help}"

    def shown(self) -> dict[str, str | None]:
        return {"about": self.about, "level": self.level.value, "says": self.says, "help": self.help}


@dataclass(frozen=True)
class Facts:
    """None: this account may not know."""

    version: str
    nodes: Sequence[Mapping[str, Any]]
    policies: frozenset[str] | None
    policies_served: bool
    daemon_sets: Sequence[str] | None
    account: str
    """Who asked."""
    controller: str
    """The account that Moorage's controller has."""
    denied: Sequence[str] | None
    """Of its rights, those that it does not have."""
    secrets: frozenset[str] | None
    """Those of Moorage's that are there."""
    has_dns: bool | None
    closed_nodes: Mapping[str, str] | None = field(default=None)
    """By name, why: as Moorage itself found out. None where it did not look yet."""
    waived: bool = False
    """The operator said that nobody need try."""


def findings(facts: Facts) -> list[Finding]:
    return [
        _version(facts.version),
        *_nodes(facts.nodes),
        _policies(facts),
        _rights(facts),
        *_network(facts),
        *_gpus(facts.nodes),
        *_storage(facts.nodes),
        *_own(facts),
    ]


def _version(said: str) -> Finding:
    match = re.match(r"v?(\d+)\.(\d+)", said)
    least = ".".join(map(str, LEAST_VERSION))
    if match is not None and (int(match[1]), int(match[2])) >= LEAST_VERSION:
        return Finding("version", Level.GOOD, f"Kubernetes {said}")
    return Finding(
        "version",
        Level.MISSING,
        f"Kubernetes {said}",
        f"Moorage needs {least} or newer: upgrade the cluster.",
    )


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    seen = [node_seen(node) for node in nodes]
    usable = [node.name for node in seen if node.ready and node.schedulable]
    others = sorted({node.name for node in seen} - set(usable))
    if not usable:
        yield Finding("nodes", Level.MISSING, "none is ready and takes Pods", "kubectl get nodes says why.")
    elif len(usable) == 1:
        yield Finding(
            "nodes",
            Level.NOTE,
            f"one takes Pods, {usable[0]}",
            "With a second one, copies of Moorage survive the loss of either.",
        )
    else:
        yield Finding("nodes", Level.GOOD, f"{len(usable)} take Pods")
    if others:
        yield Finding("nodes", Level.NOTE, f"not ready, or cordoned: {', '.join(others)}")


def _policies(facts: Facts) -> Finding:
    about = "admission policies"
    if not facts.policies_served:
        return Finding(
            about,
            Level.MISSING,
            "the API server has no ValidatingAdmissionPolicies",
            "They are part of Kubernetes 1.30 and newer: enable admissionregistration.k8s.io/v1.",
        )
    if facts.policies is None:
        return Finding(
            about,
            Level.NOTE,
            f"{facts.account} may not read them",
            "Ask with an administrator's kubeconfig.",
        )
    absent = [name for name in POLICIES if name not in facts.policies]
    if absent:
        return Finding(about, Level.MISSING, f"not there: {', '.join(absent)}", _APPLY)
    return Finding(about, Level.GOOD, "all three are there")


def _rights(facts: Facts) -> Finding:
    if facts.denied is None:
        return Finding(
            "rights",
            Level.NOTE,
            f"{facts.account} may not check the rights of {facts.controller}",
            "Ask with an administrator's kubeconfig.",
        )
    if facts.denied:
        return Finding(
            "rights", Level.MISSING, f"{facts.controller} may not {', '.join(facts.denied)}", _APPLY
        )
    return Finding("rights", Level.GOOD, f"{facts.controller} has all the rights that it uses")


def _network(facts: Facts) -> Iterable[Finding]:
    about = "network policies"
    if facts.waived:
        yield Finding(
            about,
            Level.NOTE,
            "isolation is waived: Moorage does not test them, and sign-up is closed",
            "isolation: required tests them on each node.",
        )
    elif facts.closed_nodes is not None:
        for name, because in sorted(facts.closed_nodes.items()):
            yield Finding(
                about,
                Level.MISSING,
                f"{name}: {because}",
                "Use a network that enforces NetworkPolicies (Calico, Cilium, Antrea …). Until then nothing "
                "starts there. isolation: waived is for clusters that only their owner uses.",
            )
        if not facts.closed_nodes:
            yield Finding(about, Level.GOOD, "Moorage tested them on each node, and they hold")
    elif facts.daemon_sets is not None:
        known = sorted({name for name in facts.daemon_sets for one in _ENFORCERS if one in name})
        if known:
            yield Finding(
                about,
                Level.NOTE,
                f"{', '.join(known)} should enforce them; Moorage tests each node before it uses it",
            )
        else:
            yield Finding(
                about,
                Level.NOTE,
                "nothing visible here enforces them; Moorage tests each node and uses none where they do not hold",
                "If nothing enforces them, install a network that does: Calico, Cilium, Antrea.",
            )
    if facts.has_dns is False:
        yield Finding(
            "DNS",
            Level.MISSING,
            "no Service kube-dns in kube-system",
            "Gateways find APIs by name: install CoreDNS.",
        )


def _gpus(nodes: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    found = False
    for node in nodes:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        count = int(node.get("status", {}).get("allocatable", {}).get(GPU_RESOURCE, "0"))
        has_one = any(labels.get(label) == "true" for label in _NVIDIA)
        found = found or has_one or count > 0
        if has_one and not count:
            yield Finding(
                "GPUs",
                Level.MISSING,
                f"{name} has an NVIDIA GPU but does not offer it",
                "Install NVIDIA's device plugin, or the GPU operator, which brings driver and toolkit too.",
            )
        elif count and PRODUCT_LABEL not in labels:
            yield Finding(
                "GPUs",
                Level.MISSING,
                f"{name} offers {count} but does not name the model",
                f"Install GPU feature discovery, or label the node: kubectl label node {name} {PRODUCT_LABEL}=NVIDIA-H100-80GB-HBM3",
            )
        elif count and labels.get(_SHARING, "none") != "none":
            yield Finding(
                "GPUs",
                Level.NOTE,
                f"{name} shares its GPUs ({labels[_SHARING]}), so they are not offered",
                "A GPU belongs to one replica. Turn sharing off in the device plugin's configuration.",
            )
        elif count:
            yield Finding("GPUs", Level.GOOD, f"{name}: {count} × {labels[PRODUCT_LABEL]}")
    if not found:
        yield Finding("GPUs", Level.NOTE, "no node has one, so only instance types without GPUs are offered")


def _storage(nodes: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    without = [
        node["metadata"]["name"]
        for node in nodes
        if "ephemeral-storage" not in node.get("status", {}).get("allocatable", {})
    ]
    if without:
        yield Finding(
            "storage",
            Level.MISSING,
            f"what a container writes is not limited on: {', '.join(without)}",
            "Set localStorageCapacityIsolation: true in the kubelet's configuration.",
        )
    else:
        yield Finding("storage", Level.GOOD, "what containers write is limited; Moorage needs no volumes")


def _own(facts: Facts) -> Iterable[Finding]:
    if facts.secrets is None:
        return
    for name, how in (
        (
            "moorage-database",
            "kubectl create secret generic moorage-database --from-literal=dsn=postgresql://…",
        ),
        ("moorage-keys", "moor new-keys keys && kubectl create secret generic moorage-keys --from-file=keys"),
    ):
        if name not in facts.secrets:
            yield Finding(
                "secrets",
                Level.MISSING,
                f"{name} is not there",
                f"{how} (or name yours in the chart's values)",
            )


_APPLY = "Install the chart, or: moor kubernetes manifests --values values.yaml | kubectl apply -f -"
