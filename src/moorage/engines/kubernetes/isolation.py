"""Whether a node keeps its Pods from what is not public: tried, not believed.

A NetworkPolicy that nobody enforces looks the same as one that is enforced. So a *canary* runs on each node before anything else
does, and again every day: a replica like any other, of nobody's, that tries to connect to what certainly listens and must not
be reached (kubelets, the API server) and to a cloud's metadata service. A node where it reached something, or where it has not run
yet, is closed, and replicas are kept from it. It must also reach itself: one that can connect to nothing, because its image has no
`nc` for it, shows nothing.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from moorage.engines.base import ReplicaSpec
from moorage.engines.kubernetes.nodes import Isolation, NodeSeen
from moorage.kit.clock import Clock
from moorage.kit.ids import ContainerId, OrganizationId, ProjectId, new_replica_id
from moorage.outbound.networks import METADATA_SERVICE

CANARY = ContainerId("ctr_canary")
ORGANIZATION = OrganizationId("org_canary")
WITHIN_S = 60.0
NOT_TRIED = "whether its network enforces NetworkPolicies has not been tested yet"
NOT_ABLE = (
    "whether its network enforces NetworkPolicies could not be tried: the canary did not even reach itself, which takes `sh` and `nc` in "
    "MOORAGE_KUBERNETES_LOOKER_IMAGE"
)
NO_IMAGE = "whether its network enforces NetworkPolicies cannot be tried: MOORAGE_KUBERNETES_LOOKER_IMAGE names no image"
NO_DOORS = "a request could reach whoever gets a replica's address next: MOORAGE_KUBERNETES_DOOR_IMAGE names no image for doors"
_AGAIN_AFTER_S = 24 * 3600.0
_RETRY_AFTER_S = 60.0
_MOST_NODES = 10
_CONNECT_S = 2
_MEBIBYTE = 1024 * 1024
_DONE = "tried"
_ABLE = "able"
_OWN_PORT = 17007
_OWN_TRIES = 1000
"""Without a pause, for which an image would need another program: what listens has begun after a few."""
_REACHED = re.compile(r"reached ([0-9a-f.:]+) ([0-9]+)")

Target = tuple[str, int]


@dataclass(frozen=True)
class _Tried:
    at_s: float
    isolation: Isolation
    conclusive: bool


@dataclass
class Isolations:
    clock: Clock
    given: Isolation | None
    """Where the operator answers for it, or waives it, nothing is tried."""
    can_try: bool
    has_doors: bool
    """What is at an address proves that it is the replica meant."""
    _tried: dict[str, _Tried] = field(init=False, default_factory=dict)
    """By the node's uid."""

    def of(self, node: NodeSeen) -> Isolation:
        if self.given is not None:
            return self.given
        if not self.has_doors:
            return Isolation(closed_because=NO_DOORS)
        if not self.can_try:
            return Isolation(closed_because=NO_IMAGE)
        tried = self._tried.get(node.uid)
        return tried.isolation if tried is not None else Isolation(closed_because=NOT_TRIED)

    def closed(self, nodes: Iterable[NodeSeen]) -> list[str]:
        """Their names."""
        return sorted(node.name for node in nodes if self.of(node).closed_because is not None)

    def due(self, nodes: Collection[NodeSeen]) -> list[NodeSeen]:
        """Those where a canary should run now."""
        if self.given is not None or not self.can_try or not self.has_doors:
            return []
        self._tried = {uid: one for uid, one in self._tried.items() if uid in {node.uid for node in nodes}}
        now_s = self.clock.monotonic()
        return [node for node in nodes if node.ready and node.schedulable and now_s >= self._next_s(node)]

    def note(self, node: NodeSeen, lines: Sequence[str]) -> None:
        """What its canary printed; nothing, where it did not get to it."""
        self._tried[node.uid] = _Tried(self.clock.monotonic(), isolation_from(lines), _is_conclusive(lines))

    def _next_s(self, node: NodeSeen) -> float:
        tried = self._tried.get(node.uid)
        if tried is None:
            return 0.0
        return tried.at_s + (_AGAIN_AFTER_S if tried.conclusive else _RETRY_AFTER_S)


def isolation_from(lines: Sequence[str]) -> Isolation:
    reached = [match.groups() for line in lines if (match := _REACHED.fullmatch(line)) is not None]
    if reached:
        where = ", ".join(f"{host}:{port}" for host, port in reached[:3])
        return Isolation(
            closed_because=f"its network does not enforce NetworkPolicies: a Pod there reached {where}"
        )
    if _DONE not in lines:
        return Isolation(closed_because=NOT_TRIED)
    return Isolation() if _is_conclusive(lines) else Isolation(closed_because=NOT_ABLE)


def _is_conclusive(lines: Sequence[str]) -> bool:
    return _DONE in lines and _ABLE in lines


def targets(nodes: Mapping[str, NodeSeen], api_server: Target | None, here: NodeSeen) -> list[Target]:
    """What a Pod on this node must not reach: its own node first, then some of the others."""
    others = [node for node in nodes.values() if node.name != here.name][: _MOST_NODES - 1]
    found: list[Target] = [
        (address, node.kubelet[1])
        for node in (here, *others)
        if node.kubelet is not None
        for address in node.addresses
    ]
    return [*found, (METADATA_SERVICE, 80), *([api_server] if api_server is not None else [])]


def canary(image: str, node: str, wanted: Sequence[Target]) -> ReplicaSpec:
    """`image`: the operator's own, with `sh` and `nc` in it."""
    tries = " ".join(f"({_connect(host, port)} && echo reached {host} {port}) &" for host, port in wanted)
    return ReplicaSpec(
        replica_id=new_replica_id(),
        container_id=CANARY,
        project_id=ProjectId("prj_canary"),
        organization_id=ORGANIZATION,
        slot=0,
        generation=1,
        image=image,
        command=("sh", "-c", f"{tries} wait; {_control()}; echo {_DONE}"),
        environment={},
        port=_OWN_PORT,
        host_port=None,
        vcpu_millis=100,
        memory_bytes=64 * _MEBIBYTE,
        disk_bytes=64 * _MEBIBYTE,
        only_node=node,
    )


def most_lines(wanted: Sequence[Target]) -> int:
    """That a canary prints."""
    return len(wanted) + len((_ABLE, _DONE))


def _control() -> str:
    """What must succeed: it listens, in the words of one `nc` or the other, and reaches that in the way in which it tries the rest."""
    listen = f"(nc -l -p {_OWN_PORT} || nc -l {_OWN_PORT}) </dev/null >/dev/null 2>&1 &"
    reach = f"if {_connect('127.0.0.1', _OWN_PORT)}; then echo {_ABLE}; break; fi"
    return f"{listen} n=0; while [ $n -lt {_OWN_TRIES} ]; do {reach}; n=$((n+1)); done"


def _connect(host: str, port: int) -> str:
    return f"nc -w {_CONNECT_S} {host} {port} </dev/null >/dev/null 2>&1"
