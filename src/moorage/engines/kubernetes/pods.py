"""An installation's Pods and their Secrets at the API server: found by ids, ended by uids, and nobody else's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.engines.kubernetes.connection import ApiError, ApiServer
from moorage.engines.kubernetes.names import (
    LABEL_INSTALLATION,
    LABEL_REPLICA,
    LABELS,
    PodKey,
    name_of,
    namespace_of,
    namespace_prefix,
)
from moorage.engines.kubernetes.observe import has_ended
from moorage.engines.kubernetes.reflector import list_all
from moorage.kit.errors import EngineError
from moorage.kit.ids import InstallationId, OrganizationId, ReplicaId

PODS = "/api/v1/pods"
"""Of all namespaces."""
_NOT_FOUND, _CONFLICT = 404, 409

Pod = dict[str, Any]


def path_of(key: PodKey) -> str:
    return f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"


@dataclass
class Pods:
    api: ApiServer
    installation_id: InstallationId
    _namespace_of: dict[ReplicaId, str] = field(init=False, default_factory=dict)
    """Where each was seen."""

    @property
    def selector(self) -> Mapping[str, str]:
        return {"labelSelector": f"{LABEL_INSTALLATION}={self.installation_id},{LABEL_REPLICA}"}

    async def all(self) -> dict[ReplicaId, Pod]:
        """Complete, or an error."""
        listed = await list_all(self.api, "list replicas", PODS, self.selector)
        found = {
            ReplicaId(pod["metadata"]["labels"][LABEL_REPLICA]): pod
            for pod in listed.items
            if self._is_ours(pod)
        }
        self._namespace_of = {one: str(pod["metadata"]["namespace"]) for one, pod in found.items()}
        return found

    async def of(self, replica_id: ReplicaId, organization_id: OrganizationId) -> Pod | None:
        namespace = namespace_of(self.installation_id, organization_id)
        return await self._get(PodKey(namespace, name_of(replica_id), ""), f"look at {replica_id}")

    async def find(self, replica_id: ReplicaId) -> Pod | None:
        """Where it was seen last; else one request that all namespaces answer together."""
        if (namespace := self._namespace_of.get(replica_id)) is not None:
            return await self._get(PodKey(namespace, name_of(replica_id), ""), f"look at {replica_id}")
        selector = f"{LABEL_INSTALLATION}={self.installation_id},{LABEL_REPLICA}={replica_id}"
        answer = await self.api.call(f"look at {replica_id}", "GET", PODS, query={"labelSelector": selector})
        pods: list[Pod] = [pod for pod in answer.get("items") or () if self._is_ours(pod)]
        return pods[0] if pods else None

    async def own(self, engine_id: str) -> Pod | None:
        """None for what is gone, for another installation's, and for a name in place of an id."""
        key = PodKey.parse(engine_id)
        if key is None or not key.namespace.startswith(namespace_prefix(self.installation_id)):
            return None
        pod = await self._get(key, f"look at {key.name}")
        return pod if pod is not None and pod["metadata"]["uid"] == key.uid else None

    async def require(self, engine_id: str, what: str) -> tuple[PodKey, Pod]:
        key, pod = PodKey.parse(engine_id), await self.own(engine_id)
        if key is None or pod is None:
            raise EngineError(f"{what} {engine_id}: there is no such replica", code="replica_gone")
        return key, pod

    async def has_ended(self, engine_id: str) -> bool:
        pod = await self.own(engine_id)
        return pod is None or has_ended(pod)

    async def is_gone(self, engine_id: str) -> bool:
        return await self.own(engine_id) is None

    async def delete(self, key: PodKey, *, grace_s: int) -> None:
        body = {
            "preconditions": {"uid": key.uid},
            "gracePeriodSeconds": grace_s,
            "propagationPolicy": "Background",
        }
        await self._delete(f"remove {key.name}", path_of(key), body)

    async def write_secret(self, body: dict[str, Any]) -> None:
        """Nobody may read them, so none is changed: one that is there already, of an earlier attempt, is made anew."""
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        what, path = f"write secret {name}", f"/api/v1/namespaces/{namespace}/secrets"
        for is_last in (False, False, True):
            try:
                await self.api.call(what, "POST", path, body=body)
            except ApiError as exc:
                if exc.status != _CONFLICT or is_last:
                    raise
            else:
                return
            await self._delete(what, f"{path}/{name}", {})

    async def _get(self, key: PodKey, what: str) -> Pod | None:
        try:
            pod = await self.api.call(what, "GET", path_of(key))
        except ApiError as exc:
            if exc.status == _NOT_FOUND:
                return None
            raise
        if not self._is_ours(pod):
            return None
        self._namespace_of[ReplicaId(pod["metadata"]["labels"][LABEL_REPLICA])] = key.namespace
        return pod

    async def _delete(self, what: str, path: str, options: dict[str, Any]) -> None:
        """Gone already, or another by now: both are fine."""
        try:
            await self.api.call(what, "DELETE", path, body=options)
        except ApiError as exc:
            if exc.status not in (_NOT_FOUND, _CONFLICT):
                raise

    def _is_ours(self, pod: Mapping[str, Any]) -> bool:
        """Of our installation, in a namespace of ours: a label alone is anybody's to write."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        return (
            labels.get(LABEL_INSTALLATION) == self.installation_id
            and labels.keys() >= LABELS
            and str(metadata["namespace"]).startswith(namespace_prefix(self.installation_id))
        )
