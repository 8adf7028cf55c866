"""How a replica comes to a cluster: a Pod behind a gate, then what it must not begin without, then no gate.

Whoever finds it half made, this process or the next, finishes it: each step asks what is there already.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from moorage.engines.base import IMAGE_GONE, ObservedReplica, ReplicaPhase, ReplicaSpec
from moorage.engines.doors import Doors
from moorage.engines.kubernetes.cluster import Cluster
from moorage.engines.kubernetes.cluster_settings import ClusterSettings
from moorage.engines.kubernetes.connection import JSON_PATCH, ApiError, ApiServer
from moorage.engines.kubernetes.door_body import door_of
from moorage.engines.kubernetes.door_images import DoorImages
from moorage.engines.kubernetes.images import ClusterImages, PodImage
from moorage.engines.kubernetes.isolation import CANARY, Isolations
from moorage.engines.kubernetes.names import GATE, PodKey
from moorage.engines.kubernetes.namespaces import Namespaces
from moorage.engines.kubernetes.pod_body import door_secret, environment_secret, pod_body, pull_secret
from moorage.engines.kubernetes.pods import Pods, path_of
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import ReplicaId

_NOT_FOUND, _CONFLICT, _UNPROCESSABLE = 404, 409, 422


@dataclass
class Starts:
    settings: ClusterSettings
    api: ApiServer
    clock: Clock
    cluster: Cluster
    isolations: Isolations
    namespaces: Namespaces
    pods: Pods
    images: ClusterImages
    door_images: DoorImages
    doors: Doors | None
    observe: Callable[[Mapping[str, Any]], Awaitable[ObservedReplica]]
    _under_way: WeakValueDictionary[ReplicaId, asyncio.Lock] = field(
        init=False, default_factory=WeakValueDictionary
    )

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        # One at a time: each would write its Secrets anew under the other's hands.
        async with self._under_way.setdefault(spec.replica_id, asyncio.Lock()):
            return await self._begin(spec)

    async def _begin(self, spec: ReplicaSpec) -> ObservedReplica:
        # No volume of a cluster is at once its container's alone, on the node's own disk, and there after the Pod has gone:
        # docs/decisions/0075. The API refuses the setting, and what has it is placed on other machines.
        assert spec.cache is None, "what has a cache is not placed in a cluster"
        if (pod := await self.pods.of(spec.replica_id, spec.organization_id)) is None:
            spec = await self._kept_from_closed(spec)
            image = await self._image_for(spec)
            nodes = await self.cluster.nodes()
            async with self.namespaces.used_by(spec.organization_id, addresses(nodes.values())):
                pod = await self._create(spec, image)
        observed = await self.observe(pod)
        if observed.phase is ReplicaPhase.CREATED and observed.failure is None:
            pod = await self._complete(spec, pod)
            observed = await self.observe(pod)
        return observed

    async def _kept_from_closed(self, spec: ReplicaSpec) -> ReplicaSpec:
        """Raises `EngineError` where nothing is left. What runs already is adopted."""
        if spec.container_id == CANARY:
            return spec
        nodes = (await self.cluster.nodes()).values()
        closed = self.isolations.closed(nodes)
        if nodes and len(closed) == len(nodes):
            because = self.isolations.of(next(iter(nodes))).closed_because
            raise EngineError(
                f"Nothing is started in this cluster while it cannot keep containers apart: {because}.",
                code="not_isolated",
            )
        return replace(spec, avoided_nodes=tuple(sorted({*spec.avoided_nodes, *closed})))

    async def _create(self, spec: ReplicaSpec, image: PodImage) -> dict[str, Any]:
        what = f"create replica {spec.replica_id}"
        body = pod_body(
            spec,
            installation_id=self.settings.rules.installation_id,
            image=image.name,
            architecture=image.architecture,
            options=self.settings.options,
            door_image=await self._door_image(spec, image.architecture),
        )
        namespace = body["metadata"]["namespace"]
        try:
            return await self.namespaces.create(namespace, what, f"/api/v1/namespaces/{namespace}/pods", body)
        except ApiError as exc:
            if exc.status != _CONFLICT or exc.reason != "AlreadyExists":
                raise
        # An earlier call's reply was lost, or another is under way beside this one.
        pod = await self.pods.of(spec.replica_id, spec.organization_id)
        if pod is None:
            raise EngineError(f"{what}: the name is taken by something that is not ours")
        return pod

    async def _door_image(self, spec: ReplicaSpec, architecture: str) -> str | None:
        """None where it gets no door. A canary serves nobody."""
        if self.settings.door is None or spec.container_id == CANARY:
            return None
        return (await self.door_images.ticket(spec.replica_id, architecture)).name

    async def _image_for(self, spec: ReplicaSpec) -> PodImage:
        """The registry is asked again, and may refuse by now what it allowed before."""
        try:
            return await self.images.ticket(spec.replica_id, spec.organization_id, spec.image)
        except ImageError as exc:
            raise StartError(exc.message, code=exc.code) from None
        except EngineError as exc:
            if exc.code != IMAGE_GONE or not await self._recalled(spec.image):
                raise
        return await self.images.ticket(spec.replica_id, spec.organization_id, spec.image)

    async def _recalled(self, engine_ref: str) -> bool:
        nodes = (await self.cluster.nodes()).values()
        return await self.images.recall(engine_ref, {node.architecture for node in nodes if node.ready})

    async def _complete(self, spec: ReplicaSpec, pod: dict[str, Any]) -> dict[str, Any]:
        """Its Secrets, then its gate: or, where it has none any more, another ticket for its image."""
        image = await self._image_for(spec)
        key = PodKey.of(pod)
        is_gated = any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())
        patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": key.uid}]
        if image_of(pod) != image.name:
            patch.append({"op": "replace", "path": "/spec/containers/0/image", "value": image.name})
        logins, bodies = {image.repository: image.credentials}, []
        if (door := door_of(pod)) is not None:
            its_image = await self.door_images.ticket(spec.replica_id, image.architecture)
            logins[its_image.repository] = its_image.credentials
            if door["image"] != its_image.name:
                patch.append(
                    {"op": "replace", "path": "/spec/initContainers/0/image", "value": its_image.name}
                )
            if is_gated:
                assert self.doors is not None, "there is a door"
                bodies.append(door_secret(spec, pod, await self.doors.authority(), self.clock.now()))
        if is_gated:
            bodies.append(environment_secret(spec, pod))
        for body in (*bodies, pull_secret(pod, logins)):
            await self.pods.write_secret(body)
        if is_gated:
            patch.append({"op": "remove", "path": "/spec/schedulingGates"})
        what = f"start replica {spec.replica_id}"
        try:
            return await self.api.call(what, "PATCH", path_of(key), body=patch, content_type=JSON_PATCH)
        except ApiError as exc:
            # Somebody else took the gate away, which is as good.
            if exc.status != _UNPROCESSABLE:
                raise
        found = await self.pods.of(spec.replica_id, spec.organization_id)
        if found is None or PodKey.of(found) != key:
            raise EngineError(f"{what}: it vanished while it was started")
        return found


def image_of(pod: Mapping[str, Any]) -> str:
    (main,) = pod["spec"]["containers"]
    return str(main["image"])


def addresses(nodes: Collection[Any]) -> list[str]:
    return sorted({address for node in nodes for address in node.addresses})
