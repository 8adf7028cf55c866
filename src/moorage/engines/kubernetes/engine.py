"""A cluster as an engine: one bare Pod for each replica, never restarted by anybody but the plan. The contract is in
`engines/base.py`.

The cluster chooses the node. What it says of a Pod is asked of the API server each time, because a list of ours may be old;
what changes is heard by a watch, as a hint. Every request that ends something names the Pod's uid.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog

from moorage.engines.base import (
    DiskSpace,
    GpuUsage,
    HeldCache,
    Image,
    ImageRequest,
    ListeningSocket,
    LogChunk,
    NodeCapacity,
    ObservedReplica,
    PulledImage,
    PullProgress,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.engines.doors import Doors
from moorage.engines.kubernetes.account import Account
from moorage.engines.kubernetes.cluster import Cluster
from moorage.engines.kubernetes.cluster_settings import ClusterSettings
from moorage.engines.kubernetes.connection import JSON_PATCH, ApiError, ApiServer
from moorage.engines.kubernetes.door_body import door_of
from moorage.engines.kubernetes.door_images import DoorImages, door_id
from moorage.engines.kubernetes.figures import Figures
from moorage.engines.kubernetes.hints import Hints
from moorage.engines.kubernetes.images import ClusterImages
from moorage.engines.kubernetes.isolation import CANARY, WITHIN_S, Isolations, canary, most_lines, targets
from moorage.engines.kubernetes.logs import LogPosition, read_log
from moorage.engines.kubernetes.look_inside import Looks, look_id
from moorage.engines.kubernetes.names import (
    LABEL_CONTAINER,
    LABEL_REPLICA,
    PodKey,
)
from moorage.engines.kubernetes.namespaces import Namespaces
from moorage.engines.kubernetes.nodes import NodeSeen
from moorage.engines.kubernetes.observe import (
    TicketState,
    has_begun,
    has_ended,
    main_status,
    observed_replica,
)
from moorage.engines.kubernetes.pod_body import (
    pull_secret,
)
from moorage.engines.kubernetes.pods import PODS, Pods, path_of
from moorage.engines.kubernetes.reflector import Reflector
from moorage.engines.kubernetes.starts import Starts, addresses, image_of
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId, InstallationId, ReplicaId
from moorage.outbound.pulls.proxy import PullProxy

log = structlog.get_logger()

_NODES = "/api/v1/nodes"
_NOT_FOUND, _CONFLICT, _BAD_REQUEST, _UNPROCESSABLE = 404, 409, 400, 422
_LOOK_EVERY_S = 0.2
_ENDS_WITHIN_S = 30.0
"""After its grace period: a kubelet that has not ended it by then does not answer."""
_TELLS_WITHIN_S = 10.0
_CANARIES = 4
_DEADLINE_S = 1
"""A Pod's shortest. The kubelet ends what is older than that, waits its grace period, and keeps the Pod with its log."""


class KubernetesEngine:
    def __init__(
        self,
        account: Account,
        settings: ClusterSettings,
        clock: Clock,
        pulls: PullProxy | None = None,
        doors: Doors | None = None,
    ) -> None:
        """`doors` sign for the doors of replicas; needed where the settings name their image."""
        assert settings.door is None or doors is not None, "somebody signs for doors"
        self._settings = settings
        self._installation_id: InstallationId = settings.rules.installation_id
        self._clock = clock
        self._api = ApiServer(account, clock)
        self._account = account
        self._isolations = Isolations(
            clock,
            settings.isolation,
            can_try=settings.looker is not None,
            has_doors=settings.door is not None,
        )
        self._cluster = Cluster(self._api, clock, self._isolations.of)
        self._namespaces = Namespaces(self._api, clock, settings.rules)
        self._pods = Pods(self._api, self._installation_id)
        self._figures = Figures(self._api, clock, settings.figures_every_s)
        self._images = ClusterImages(pulls, settings.pull_address, settings.local_registry, clock)
        self._door_images = DoorImages(self._images, settings.door, clock)
        self._looks = Looks(self._api, clock, self._images, settings.looker, settings.look_after_s)
        self._nodes_of: dict[str, str] = {}
        """By engine id, of Pods that run: the node."""
        self._told: set[ReplicaId] = set()
        """Those whose failure is in the log."""
        self._starts = Starts(
            settings,
            self._api,
            clock,
            self._cluster,
            self._isolations,
            self._namespaces,
            self._pods,
            self._images,
            self._door_images,
            doors,
            self._observed,
        )

    async def prepare(self) -> None:
        nodes, pods = await self._cluster.nodes(), await self._pods.all()
        in_use = {pod["metadata"]["namespace"] for pod in pods.values()}
        await self._namespaces.keep(addresses(nodes.values()), in_use)
        for pod in pods.values():
            if _is_canary(pod):  # of a process that ended before it did
                await self.remove(PodKey.of(pod).engine_id)
        due = self._isolations.due(nodes.values())
        for some in (due[at : at + _CANARIES] for at in range(0, len(due), _CANARIES)):
            await asyncio.gather(*(self._try_isolation(node) for node in some))

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        """How far a node has come with a pull nobody tells: there is no progress."""
        nodes = (await self._cluster.nodes()).values()
        return await self._images.ensure(request, {node.architecture for node in nodes if node.ready})

    async def pulled_images(self) -> list[PulledImage]:
        """Kubelets clean up by themselves."""
        return []

    async def remove_image(self, engine_ref: str) -> bool:
        return True

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        return await self._starts.start(spec)

    async def caches(self) -> list[HeldCache]:
        return []

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        return None

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        return True

    async def stop(self, engine_id: str, grace_s: float) -> None:
        """By a deadline, which leaves the Pod and its log. A grace period that is shorter than the Pod's own ends with its
        removal; so does the life of one that has no node yet, or whose node is not heard of."""
        key, pod = PodKey.parse(engine_id), await self._pods.own(engine_id)
        if key is None or pod is None or has_ended(pod):
            return
        self._figures.forget(key)
        if not pod.get("spec", {}).get("nodeName") or not await self._answers(pod):
            await self._pods.delete(key, grace_s=0)
            return
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": key.uid},
            {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": _DEADLINE_S},
        ]
        try:
            await self._api.call(
                f"stop {key.name}", "PATCH", path_of(key), body=patch, content_type=JSON_PATCH
            )
        except ApiError as exc:
            # The test of the uid fails where the Pod of that name is another one by now.
            if exc.status == _NOT_FOUND or await self._pods.own(engine_id) is None:
                return
            raise
        patience_s = min(grace_s, self._settings.options.stop_grace_s)
        hurries = grace_s < self._settings.options.stop_grace_s
        waits_s = patience_s + 2 * _DEADLINE_S if hurries else patience_s + _ENDS_WITHIN_S
        if not await self._until(lambda: self._pods.has_ended(engine_id), waits_s):
            if not hurries:
                raise EngineError(f"stop {key.name}: its kubelet has not ended it within {waits_s:g} s")
            await self.remove(engine_id)

    async def remove(self, engine_id: str) -> None:
        key, pod = PodKey.parse(engine_id), await self._pods.own(engine_id)
        if key is None or pod is None:
            return
        self._figures.forget(key)
        self._nodes_of.pop(engine_id, None)
        replica_id = ReplicaId(pod["metadata"]["labels"][LABEL_REPLICA])
        for one in (replica_id, look_id(replica_id), door_id(replica_id)):
            await self._images.done(one)
        # With no grace period the API server forgets it at once, whatever a kubelet still does: only where none answers.
        await self._pods.delete(key, grace_s=1 if await self._answers(pod) else 0)
        if not await self._until(lambda: self._pods.is_gone(engine_id), _ENDS_WITHIN_S):
            raise EngineError(
                f"remove {key.name}: its kubelet has not let go of it within {_ENDS_WITHIN_S:g} s"
            )

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        pod = await self._pods.find(replica_id)
        return await self._observed(pod) if pod is not None else None

    async def list_replicas(self) -> list[ObservedReplica]:
        pods = await self._pods.all()
        await self._images.keep_only(pods.keys())
        pods = {one: pod for one, pod in pods.items() if not _is_canary(pod)}
        self._told &= pods.keys()
        self._nodes_of = {
            engine_id: node for engine_id, node in map(_runs_on, pods.values()) if node is not None
        }
        return [await self._observed(pods[replica_id]) for replica_id in sorted(pods)]

    def watch(self) -> AsyncIterator[ContainerId]:
        # From the moment of this call on, not from whenever the first change is awaited.
        silent_after_s = self._settings.silent_after_s
        pods = Reflector(self._api, self._clock, "watch replicas", PODS, self._pods.selector, silent_after_s)
        nodes = Reflector(self._api, self._clock, "watch nodes", _NODES, {}, silent_after_s)
        return Hints(pods, nodes, self._clock.now()).follow()

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        key, _ = await self._pods.require(engine_id, "read the log of")
        position = None
        async for chunks in self._read_log(key, since_ns, follow=True, last=last):
            if position is None:
                position = LogPosition(since_ns if last is None else chunks[0].time_ns)
            position.advance(chunks)
            yield chunks
        # A kubelet that shuts down ends the stream as cleanly as a process that ends; of the latter it tells a moment later.
        if not await self._until(lambda: self._pods.has_ended(engine_id), _TELLS_WITHIN_S):
            raise EngineError(f"read the log of {key.name}: it ended, but its process runs on")
        _, pod = await self._pods.require(engine_id, "read the log of")
        if "deletionTimestamp" in pod["metadata"]:
            raise EngineError(f"read the log of {key.name}: it is being removed", code="replica_gone")
        # What was written while the follower was let go is in the log by now.
        position = position or LogPosition(since_ns)
        async for chunks in self._read_log(key, position.at_ns, follow=False):
            if new := [chunk for chunk in chunks if position.is_new(chunk)]:
                yield new

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        """What the last look found; perhaps another begins, and is read by a later call."""
        pod = await self._pods.own(engine_id)
        if pod is None:
            return ()
        found = await self._looks.sockets(pod)
        node = (await self._cluster.nodes()).get(pod.get("spec", {}).get("nodeName", ""))
        if node is not None and node.ready and self._looks.is_due(pod):
            image = await self._looks.ticket(pod, node.architecture)
            await self._pods.write_secret(pull_secret(pod, {image.repository: image.credentials}))
            await self._looks.begin(pod, image)
        return found

    async def process_limit_reached(self, engine_id: str) -> bool:
        return False

    async def diagnose_network(self, engine_id: str, questions: NetworkQuestions) -> NetworkDiagnosis:
        _, pod = await self._pods.require(engine_id, "look at the network of")
        if has_ended(pod):
            raise EngineError(f"look at the network of {engine_id}: it does not run", code="replica_gone")
        raise EngineError(f"look at the network of {engine_id}: a cluster's Pods cannot be entered from here")

    async def last_lines(self, engine_id: str, count: int) -> tuple[str, ...]:
        key = PodKey.parse(engine_id)
        if key is None or await self._pods.own(engine_id) is None:
            return ()
        try:
            tail = self._read_log(key, 0, follow=False, last=count)
            return tuple([chunk.data.decode("utf-8", "replace") async for chunks in tail for chunk in chunks])
        except ApiError as exc:
            if exc.status in (_NOT_FOUND, _BAD_REQUEST):  # it never ran, or its node threw its log away
                return ()
            raise

    async def usage(self, engine_ids: Collection[str]) -> Mapping[str, ReplicaUsage]:
        if not engine_ids:
            return {}
        unknown = [one for one in engine_ids if one not in self._nodes_of and PodKey.parse(one) is not None]
        for engine_id in unknown:
            pod = await self._pods.own(engine_id)
            node = _runs_on(pod)[1] if pod is not None else None
            if node is not None:
                self._nodes_of[engine_id] = node
        asked = {one: self._nodes_of[one] for one in engine_ids if one in self._nodes_of}
        return await self._figures.of(asked, await self._cluster.nodes()) if asked else {}

    async def disk_space(self) -> DiskSpace | None:
        """The kubelets look after their disks, and end what writes more than it may."""
        return None

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        return {}

    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        return {}

    async def gpu_problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        return {}

    async def capacity(self) -> list[NodeCapacity]:
        return await self._cluster.capacity(self._installation_id)

    async def close(self) -> None:
        await self._images.close()
        await self._api.close()

    async def _try_isolation(self, node: NodeSeen) -> None:
        """What cannot be tried stays closed, and is tried again in a minute."""
        lines: tuple[str, ...] = ()
        try:
            lines = await self._run_canary(node)
        except EngineError as exc:
            log.warning("isolation_not_tried", node=node.name, error=str(exc))
        self._isolations.note(node, lines)
        log.info("isolation_tried", node=node.name, closed=self._isolations.of(node).closed_because)

    async def _run_canary(self, node: NodeSeen) -> tuple[str, ...]:
        assert self._settings.looker is not None, "it can be tried"
        nodes = await self._cluster.nodes()
        image = await self._images.ensure(self._settings.looker, {node.architecture})
        wanted = targets(nodes, self._account.address, node)
        started = await self.start(canary(image.engine_ref, node.name, wanted))
        try:
            if not await self._until(lambda: self._pods.has_ended(started.engine_id), WITHIN_S):
                return ()
            pod = await self._pods.own(started.engine_id)
            ran_on = pod["spec"].get("nodeName") if pod is not None else None
            if ran_on != node.name:
                # What it saw there says nothing of this node.
                raise EngineError(f"try the isolation of {node.name}: its canary ran on {ran_on}")
            return await self.last_lines(started.engine_id, most_lines(wanted))
        finally:
            await self.remove(started.engine_id)

    async def _observed(self, pod: Mapping[str, Any]) -> ObservedReplica:
        replica_id = ReplicaId(pod["metadata"]["labels"][LABEL_REPLICA])
        if has_begun(pod):
            await self._images.done(replica_id)
            await self._images.done(door_id(replica_id))
        node_name = pod.get("spec", {}).get("nodeName")
        node = (await self._cluster.nodes()).get(node_name) if node_name else None
        observed = observed_replica(
            pod,
            node,
            self._ticket_state(replica_id, pod),
            self._clock.now(),
            timedelta(seconds=self._settings.pull_timeout_s),
        )
        if observed.failure is not None and replica_id not in self._told:
            # The cluster's own words are for the operator alone: they may quote what is a tenant's.
            self._told.add(replica_id)
            status = pod.get("status", {})
            words = {
                "state": main_status(pod).get("state"),
                "reason": status.get("reason"),
                "beside": status.get("initContainerStatuses"),
            }
            log.warning("replica_fails", replica_id=replica_id, code=observed.failure.code, **words)
        return observed

    def _ticket_state(self, replica_id: ReplicaId, pod: Mapping[str, Any]) -> TicketState:
        """Of its own image and of its door's together."""
        own, door = self._images.state(replica_id, image_of(pod)), door_of(pod)
        if door is None:
            return own
        its = self._images.state(door_id(replica_id), str(door["image"]))
        return TicketState(own.open and its.open, own.refused, door_refused=its.refused is not None)

    async def _answers(self, pod: Mapping[str, Any]) -> bool:
        """Whether the kubelet of its node does; there is none to wait for where it has no node."""
        name = pod.get("spec", {}).get("nodeName")
        node = (await self._cluster.nodes()).get(name) if name else None
        return node is not None and node.ready

    async def _read_log(
        self, key: PodKey, since_ns: int, *, follow: bool, last: int | None = None
    ) -> AsyncIterator[list[LogChunk]]:
        async for chunks in read_log(self._api, key, since_ns, follow=follow, last=last):
            yield chunks

    async def _until(self, condition: Callable[[], Awaitable[bool]], within_s: float) -> bool:
        deadline_s = self._clock.monotonic() + within_s
        while not await condition():
            if self._clock.monotonic() > deadline_s:
                return False
            await self._clock.sleep(_LOOK_EVERY_S)
        return True


def _is_canary(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"][LABEL_CONTAINER] == CANARY)


def _runs_on(pod: Mapping[str, Any]) -> tuple[str, str | None]:
    runs = "running" in main_status(pod).get("state", {})
    return PodKey.of(pod).engine_id, pod.get("spec", {}).get("nodeName") if runs else None
