"""What is in the namespace of each organization before its first Pod. Pure.

Everything is denied that is not said here: no way in, and a way out to public addresses alone. Nodes count as not public even
where their addresses are: behind those are kubelets and the node's own services.
"""

import hashlib
import ipaddress
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.engines.kubernetes.names import (
    ANNOTATION_BODIES,
    LABEL_INSTALLATION,
    LABEL_ORGANIZATION,
    REPLICA_ACCOUNT,
    TENANT_ROLE,
    namespace_of,
)
from moorage.kit.ids import InstallationId, OrganizationId
from moorage.outbound.networks import GLOBAL_IPV6, NOT_PUBLIC, NOT_PUBLIC_IPV6

NAME = "moorage"
_RBAC = "rbac.authorization.k8s.io"
_NO_EVICTIONS = 1_000_000
"""More Pods than a namespace can have. A budget of bare Pods takes a number only: with this one no eviction is allowed, and
`kubectl drain` waits until Moorage has moved what runs on a cordoned node."""


@dataclass(frozen=True)
class ServiceAccount:
    namespace: str
    name: str


@dataclass(frozen=True)
class NamespaceRules:
    """What namespaces of one installation have in common."""

    installation_id: InstallationId
    callers: tuple[str, ...] = ()
    """Namespaces whose Pods may connect to replicas: Moorage's own, with its gateways and its controller."""
    caller_networks: tuple[str, ...] = ()
    """Addresses that may: of gateways outside the cluster."""
    closed_networks: tuple[str, ...] = ()
    """That replicas may not reach besides: of Pods, Services and the API server, where those are public addresses."""
    max_pods: int = 500
    controller: ServiceAccount | None = None
    """Who gets its rights in the namespace; None where its rights are for the whole cluster."""
    ipv6: bool = False


def namespace_body(rules: NamespaceRules, organization_id: OrganizationId) -> dict[str, Any]:
    """Baseline is enforced by Kubernetes itself; what is stricter than that by Moorage's own policy (`objects.py`), because
    `restricted` forbids uid 0, which users' images need."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace_of(rules.installation_id, organization_id),
            "labels": {
                LABEL_INSTALLATION: rules.installation_id,
                LABEL_ORGANIZATION: organization_id,
                "pod-security.kubernetes.io/enforce": "baseline",
                "pod-security.kubernetes.io/audit": "baseline",
            },
        },
    }


def bodies_in(namespace: str, rules: NamespaceRules, node_addresses: Iterable[str]) -> list[dict[str, Any]]:
    """In the order in which they are made: the right to make the others first."""
    labels = {LABEL_INSTALLATION: rules.installation_id}
    metadata = {"name": NAME, "namespace": namespace, "labels": labels}
    bodies: list[dict[str, Any]] = []
    if rules.controller is not None:
        bodies.append(_role_binding(metadata, rules.controller))
    return [
        *bodies,
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**metadata, "name": REPLICA_ACCOUNT},
            "automountServiceAccountToken": False,
        },
        _network_policy(metadata, rules, node_addresses),
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata,
            # A net below the ropes, not the gate: that is credit and the replica limit.
            "spec": {
                "hard": {
                    "pods": str(rules.max_pods),
                    "services": "0",
                    "persistentvolumeclaims": "0",
                    "configmaps": "20",
                    "secrets": str(4 * rules.max_pods),
                }
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"minAvailable": _NO_EVICTIONS, "selector": {"matchLabels": labels}},
        },
    ]


def fingerprint_of(bodies: Sequence[dict[str, Any]]) -> str:
    """Of what lies in a namespace; kept as its annotation, so that nothing is written that is there already."""
    return hashlib.sha256(json.dumps(bodies, sort_keys=True).encode()).hexdigest()[:32]


def annotated(fingerprint: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {ANNOTATION_BODIES: fingerprint}}}


def _role_binding(metadata: dict[str, Any], controller: ServiceAccount) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": TENANT_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": controller.name, "namespace": controller.namespace}],
    }


def _network_policy(
    metadata: dict[str, Any], rules: NamespaceRules, node_addresses: Iterable[str]
) -> dict[str, Any]:
    closed = [*NOT_PUBLIC, *rules.closed_networks, *(_as_network(one) for one in node_addresses)]
    egress = [{"ipBlock": {"cidr": "0.0.0.0/0", "except": _of_version(closed, 4, "0.0.0.0/0")}}]
    if rules.ipv6:
        closed_ipv6 = _of_version([*NOT_PUBLIC_IPV6, *closed], 6, GLOBAL_IPV6)
        egress.append({"ipBlock": {"cidr": GLOBAL_IPV6, "except": closed_ipv6}})
    callers: list[dict[str, Any]] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
        for name in rules.callers
    ]
    callers += [{"ipBlock": {"cidr": network}} for network in rules.caller_networks]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            # All Pods of the namespace, of each other too.
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": callers}] if callers else [],
            "egress": [{"to": egress}],
        },
    }


def _as_network(address: str) -> str:
    return str(ipaddress.ip_network(address))


def _of_version(networks: Iterable[str], version: int, inside: str) -> list[str]:
    """Sorted, so that the same networks are the same policy; without those that lie in others."""
    whole = ipaddress.ip_network(inside)
    of_version = [one for one in map(ipaddress.ip_network, networks) if one.version == version]
    # Only what lies within `inside` may be excepted from it.
    within = [one for one in of_version if one.subnet_of(whole)]  # type: ignore[arg-type]
    return [str(one) for one in ipaddress.collapse_addresses(within)]  # type: ignore[type-var]
