"""What listens inside a replica's network namespace, for a verdict on one that does not become ready.

The image of a replica is asked nothing, and may have no shell. A container of our own is put beside it for a moment, an ephemeral
one: it shares the Pod's network and nothing else, prints the kernel's tables and ends. How far that has come is written in the Pod,
so nothing is remembered but what was read. Such a container cannot be taken out of a Pod again, so there are few of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moorage.engines.base import ImageRequest, ListeningSocket
from moorage.engines.docker.sockets import parse_table
from moorage.engines.kubernetes.connection import MERGE_PATCH, ApiServer
from moorage.engines.kubernetes.door_body import door_of
from moorage.engines.kubernetes.images import EVERYBODY, ClusterImages, PodImage
from moorage.engines.kubernetes.names import LABEL_REPLICA, LOOK, PodKey
from moorage.engines.kubernetes.observe import main_status, time_of
from moorage.engines.kubernetes.pod_body import look_body
from moorage.kit.clock import Clock
from moorage.kit.ids import OrganizationId, ReplicaId

AFTER_S = 5.0
"""Most servers listen by then, and nobody asks."""
AGAIN_AFTER_S = 30.0
_MOST = 4
_TABLE_BYTES = 64 * 1024


def look_id(replica_id: ReplicaId) -> ReplicaId:
    """Under which a look has its ticket."""
    return ReplicaId(f"{replica_id}/{LOOK}")


@dataclass
class Looks:
    api: ApiServer
    clock: Clock
    images: ClusterImages
    image: ImageRequest | None
    """The operator's own, with `cat` in it; without one nothing is seen."""
    after_s: float
    _read: dict[tuple[str, str], tuple[ListeningSocket, ...]] = field(init=False, default_factory=dict)
    """By uid and the look's name."""

    async def sockets(self, pod: Mapping[str, Any]) -> tuple[ListeningSocket, ...]:
        """As the last look found them; empty before the first one has ended."""
        if self.image is None or "running" not in main_status(pod).get("state", {}):
            return ()
        key, looks = PodKey.of(pod), list(pod["spec"].get("ephemeralContainers") or ())
        if not looks:
            return ()
        name = str(looks[-1]["name"])
        if (key.uid, name) not in self._read and _has_ended(pod, name):
            self._read = {one: found for one, found in self._read.items() if one[0] != key.uid}
            found = await self._result(key, name)
            # The door is nothing that the replica listens on.
            ports = {one["containerPort"] for one in (door_of(pod) or {}).get("ports", ())}
            self._read[key.uid, name] = tuple(one for one in found if one.port not in ports)
            await self.images.done(look_id(_replica_id(pod)))
        return self._read.get((key.uid, name), ())

    def is_due(self, pod: Mapping[str, Any]) -> bool:
        """Whether another look should begin now."""
        running = main_status(pod).get("state", {}).get("running")
        if self.image is None or running is None:
            return False
        looks = list(pod["spec"].get("ephemeralContainers") or ())
        if not looks:
            since, wait_s = time_of(running.get("startedAt")), self.after_s
        else:
            since, wait_s = _ended_at(pod, str(looks[-1]["name"])), AGAIN_AFTER_S
        if since is None or len(looks) >= _MOST:
            return False
        return (self.clock.now() - since).total_seconds() >= wait_s

    async def ticket(self, pod: Mapping[str, Any], architecture: str) -> PodImage:
        assert self.image is not None, "it is due"
        image = await self.images.ensure(self.image, {architecture})
        return await self.images.ticket(
            look_id(_replica_id(pod)), OrganizationId(EVERYBODY), image.engine_ref
        )

    async def begin(self, pod: Mapping[str, Any], image: PodImage) -> None:
        key, looks = PodKey.of(pod), list(pod["spec"].get("ephemeralContainers") or ())
        body = {
            # Another Pod of that name has another uid, and is left alone.
            "metadata": {"uid": key.uid},
            "spec": {"ephemeralContainers": [*looks, look_body(len(looks) + 1, image.name)]},
        }
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/ephemeralcontainers"
        await self.api.call(f"look inside {key.name}", "PATCH", path, body=body, content_type=MERGE_PATCH)

    async def _result(self, key: PodKey, name: str) -> tuple[ListeningSocket, ...]:
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/log"
        query = {"container": name, "limitBytes": str(_TABLE_BYTES)}
        text = await self.api.text(f"look inside {key.name}", path, query)
        found = set(parse_table(text[: text.rfind(b"\n") + 1].decode("ascii", "replace")))
        return tuple(sorted(found, key=lambda socket: (socket.port, socket.address)))


def _replica_id(pod: Mapping[str, Any]) -> ReplicaId:
    return ReplicaId(pod["metadata"]["labels"][LABEL_REPLICA])


def _state(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("ephemeralContainerStatuses") or ()
    found: Mapping[str, Any] = next((one.get("state", {}) for one in statuses if one["name"] == name), {})
    return found


def _has_ended(pod: Mapping[str, Any], name: str) -> bool:
    terminated = _state(pod, name).get("terminated")
    return terminated is not None and terminated.get("exitCode") == 0


def _ended_at(pod: Mapping[str, Any], name: str) -> datetime | None:
    return time_of((_state(pod, name).get("terminated") or {}).get("finishedAt"))
