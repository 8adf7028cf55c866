"""What the cluster itself is: its nodes, what they have left, and whether it is the one it was."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.engines.base import NodeCapacity
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.names import LABEL_INSTALLATION
from moorage.engines.kubernetes.nodes import (
    Isolation,
    NodeSeen,
    Requested,
    capacities,
    node_seen,
    requested_by,
)
from moorage.engines.kubernetes.reflector import list_all
from moorage.kit.clock import Clock
from moorage.kit.ids import InstallationId

_NODES_AGE_S = 3.0
"""Every look at a replica wants to know whether its node answers."""
_FOREIGN_AGE_S = 60.0
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass
class Cluster:
    api: ApiServer
    clock: Clock
    isolation: Callable[[NodeSeen], Isolation]
    _nodes: list[dict[str, Any]] = field(init=False, default_factory=list)
    _seen: dict[str, NodeSeen] = field(init=False, default_factory=dict)
    _nodes_at_s: float | None = field(init=False, default=None)
    _foreign: Mapping[str, Requested] = field(init=False, default_factory=dict)
    _foreign_at_s: float | None = field(init=False, default=None)
    _asking: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def nodes(self) -> Mapping[str, NodeSeen]:
        """By name, as they were a moment ago at the most."""
        async with self._asking:
            if self._is_old(self._nodes_at_s, _NODES_AGE_S):
                await self._list_nodes()
            return self._seen

    async def capacity(self, installation_id: InstallationId) -> list[NodeCapacity]:
        async with self._asking:
            await self._list_nodes()
            if self._is_old(self._foreign_at_s, _FOREIGN_AGE_S):
                selector = {
                    "labelSelector": f"{LABEL_INSTALLATION}!={installation_id}",
                    "fieldSelector": _RUNNING,
                }
                listed = await list_all(self.api, "list the cluster's other Pods", "/api/v1/pods", selector)
                self._foreign, self._foreign_at_s = requested_by(listed.items), self.clock.monotonic()
            return capacities(
                self._nodes, self._foreign, cluster_uid=await self._identity(), isolation=self.isolation
            )

    async def _list_nodes(self) -> None:
        self._nodes = (await list_all(self.api, "list nodes", "/api/v1/nodes", {})).items
        self._seen = {seen.name: seen for seen in map(node_seen, self._nodes)}
        self._nodes_at_s = self.clock.monotonic()

    async def _identity(self) -> str:
        """Kubernetes' own word for "this cluster": the uid of a namespace that every cluster has, and makes once."""
        what = "ask for the cluster's identity"
        answer = await self.api.call(what, "GET", "/api/v1/namespaces/kube-system")
        return str(answer["metadata"]["uid"])

    def _is_old(self, at_s: float | None, age_s: float) -> bool:
        return at_s is None or self.clock.monotonic() - at_s > age_s
