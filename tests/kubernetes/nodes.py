"""The rest of a stand-in cluster: a scheduler, and kubelets whose containers are imagined.

What a container does follows from a label of its image (`SimulatedImage`): it prints, exits, runs out of memory, ignores a stop.
The image is really pulled: the manifest and the configuration come by HTTP from wherever the Pod says, with the Pod's own pull
secret. The environment is really read from the Secret. Statuses look as those of a real kubelet (`recordings/`).
"""

import asyncio
import base64
import contextlib
import copy
import hashlib
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web

from moorage.engines.kubernetes.door_body import door_of
from moorage.engines.kubernetes.isolation import CANARY
from moorage.engines.kubernetes.names import LABEL_CONTAINER, LABEL_REPLICA
from moorage.engines.kubernetes.nodes import node_seen, requested_by
from moorage.engines.kubernetes.quantities import bytes_of, millis_of
from moorage.engines.simulated_machine import SimulatedImage
from tests.door_process import DoorProcess, start_door, until_it_listens
from tests.kubernetes.api_server import StandIn
from tests.kubernetes.node_terms import node_matches
from tests.kubernetes.store import Change, Key, now_text

BEHAVIOUR = "behaviour"
SPEED = 20.0
"""Seconds of a kubelet that pass in one of ours: grace periods, deadlines and pauses are shorter here by that."""
_ENDED = ("Succeeded", "Failed")
_PULL_BACKOFF_S = 10.0
_TERMINATED, _KILLED = 143, 137


class PullFailedError(Exception):
    pass


@dataclass
class Running:
    """A container whose process is imagined."""

    image: SimulatedImage
    started_s: float
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    """Time in nanoseconds, and what it said."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    spoke: asyncio.Event = field(default_factory=asyncio.Event)
    environment: Mapping[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    looks: dict[str, str] = field(default_factory=dict)
    """What those printed that were put beside it."""
    look_failed: str | None = None

    def say(self, data: bytes, time_ns: int) -> None:
        self.lines.append((time_ns, data))
        self.spoke.set()


@dataclass
class Nodes:
    server: StandIn
    images: Mapping[str, SimulatedImage]
    addresses: str = "127.80"
    """The first half of the addresses that Pods get."""
    really_listen: bool = False
    """Whether something answers at a Pod's address: with status 200, whatever it is asked. Doors really run then, too."""
    answers: Callable[[dict[str, Any], str], bytes] | None = None
    """What it answers instead, to the head of a request."""
    pool: list[str] | None = None
    """The only addresses that Pods get, each again as soon as the one before has ended."""
    health_status: int = 200
    containers: dict[str, Running] = field(default_factory=dict)
    """By the Pod's uid."""
    stopped_kubelets: set[str] = field(default_factory=set)
    """Nodes whose kubelet does nothing: what runs there runs on."""
    restarts_by_itself: bool = False
    leaks: set[str] = field(default_factory=set)
    """Nodes whose Pods reach everything."""
    canaries_are_able: bool = True
    """To reach themselves."""
    places_on: str | None = None
    """Where its scheduler puts what fits anywhere, whatever the Pod says."""
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _listeners: dict[str, asyncio.Server] = field(default_factory=dict)
    _doors: dict[str, DoorProcess] = field(default_factory=dict)
    _next_address: int = 0
    _given: dict[str, str] = field(default_factory=dict)
    """Of the pool, by the Pod's uid."""

    async def __aenter__(self) -> "Nodes":
        self._http = aiohttp.ClientSession()
        self.server.read_log = self._read_log
        self.server.figures = self._figures
        self.server.store.listeners.append(self._changed)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for listener in self._listeners.values():
            listener.close()
        for door in self._doors.values():
            await door.end()
        await self._http.close()

    def add(
        self,
        name: str,
        *,
        cpu: str = "8",
        memory: str = "64Gi",
        labels: Mapping[str, str] | None = None,
        gpus: int = 0,
        architecture: str = "arm64",
    ) -> None:
        allocatable = {"cpu": cpu, "memory": memory, "pods": "250", "ephemeral-storage": "1000Gi"}
        allocatable |= {"nvidia.com/gpu": str(gpus)} if gpus else {}
        self.server.store.create(
            ("nodes", "", name),
            {
                "metadata": {
                    "labels": {
                        "kubernetes.io/arch": architecture,
                        "kubernetes.io/hostname": name,
                        **(labels or {}),
                    }
                },
                "spec": {},
                "status": {
                    "allocatable": allocatable,
                    "capacity": allocatable,
                    "conditions": [_ready("True")],
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": self.server.port}},
                    "nodeInfo": {"architecture": architecture},
                },
            },
        )

    def cordon(self, name: str, cordoned: bool = True) -> None:
        self._change(("nodes", "", name), lambda node: node["spec"].update(unschedulable=cordoned))

    def label(self, name: str, key: str, value: str) -> None:
        self._change(("nodes", "", name), lambda node: node["metadata"]["labels"].update({key: value}))

    def occupy(self, memory: str) -> None:
        """Somebody else's Pod takes so much of each node."""
        for node in list(self.server.store.all("nodes")):
            name = node["metadata"]["name"]
            container = {"resources": {"requests": {"memory": memory}}}
            self.server.store.create(
                ("pods", "default", f"foreign-on-{name}"),
                {
                    "metadata": {},
                    "spec": {"nodeName": name, "containers": [container]},
                    "status": {"phase": "Running"},
                },
            )

    def vacate(self) -> None:
        for pod in list(self.server.store.all("pods", "default")):
            self.server.store.delete(_key(pod))

    def lose(self, name: str, since: datetime | None = None) -> None:
        """Its kubelet is not heard of; the cluster says so. What ran there may run on."""
        self.stopped_kubelets.add(name)
        self._set_ready(name, "Unknown", since)

    def find(self, name: str) -> None:
        self.stopped_kubelets.discard(name)
        self._set_ready(name, "True")
        for pod in list(self.server.store.all("pods")):
            self._look_at(pod)

    def evict(self, key: Key, message: str) -> None:
        """As a kubelet does whose node runs short, or whose Pod wrote too much."""
        self._end_pod(key, "Evicted", message, _KILLED)

    def running(self) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.server.store.all("pods")
            if pod["metadata"]["uid"] in self.containers
            and not self.containers[pod["metadata"]["uid"]].ended.is_set()
        ]

    def _changed(self, change: Change) -> None:
        if change.kind == "pods" and change.type == "DELETED":
            self._forget(change.item["metadata"]["uid"])
            self._reschedule()
        elif change.kind == "pods":
            self._look_at(change.item)
        elif change.kind == "nodes":
            self._reschedule()

    def _reschedule(self) -> None:
        for pod in list(self.server.store.all("pods")):
            if not pod["spec"].get("nodeName"):
                self._look_at(pod)

    def _look_at(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if LABEL_REPLICA not in (pod["metadata"].get("labels") or {}):
            return  # somebody else's
        if uid in self._tasks and not self._tasks[uid].done():
            return
        if pod["status"]["phase"] in _ENDED or pod["spec"].get("nodeName") in self.stopped_kubelets:
            return
        self._tasks[uid] = task = asyncio.get_running_loop().create_task(self._live(_key(pod), uid))
        task.add_done_callback(_tell_of_failure)

    def _forget(self, uid: str) -> None:
        if (container := self.containers.get(uid)) is not None:
            container.ended.set()
        if (listener := self._listeners.pop(uid, None)) is not None:
            listener.close()

    async def _live(self, key: Key, uid: str) -> None:
        await asyncio.sleep(0)  # after whoever changed it
        if not self._is_there(key, uid):
            return
        pod = self.server.store.get(key)
        if not pod["spec"].get("nodeName") and not self._schedule(key):
            return
        try:
            if uid in self.containers or await self._prepare(key, uid):
                await self._run(key, uid)
        finally:
            await self._let_go(uid)

    def _schedule(self, key: Key) -> bool:
        pod = self.server.store.get(key)
        if pod["spec"].get("schedulingGates"):
            return False
        nodes = [node for node in self.server.store.all("nodes") if self._fits(pod, node)]
        if not nodes:
            total = len(list(self.server.store.all("nodes")))
            message = f"0/{total} nodes are available: {total} Insufficient memory."
            self._condition(key, "PodScheduled", "False", "Unschedulable", message)
            return False
        counts = {node["metadata"]["name"]: 0 for node in nodes}
        for other in self.server.store.all("pods"):
            if other["spec"].get("nodeName") in counts:
                counts[other["spec"]["nodeName"]] += 1
        chosen = self.places_on or min(counts, key=lambda name: (counts[name], name))
        self._change(key, lambda one: one["spec"].update(nodeName=chosen))
        self._condition(key, "PodScheduled", "True")
        return True

    def _fits(self, pod: dict[str, Any], node: dict[str, Any]) -> bool:
        seen = node_seen(node)
        if not seen.ready or not seen.schedulable:
            return False
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        if not any(node_matches(node, term) for term in affinity["nodeSelectorTerms"]):
            return False
        others = [
            one for one in self.server.store.all("pods") if one["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        used = requested_by(others).get(seen.name)
        wanted = requested_by([merged_node(pod, seen.name)])[seen.name]
        allocatable = node["status"]["allocatable"]
        return (
            wanted.cpu_millis + (used.cpu_millis if used else 0) <= millis_of(allocatable["cpu"])
            and wanted.memory_bytes + (used.memory_bytes if used else 0) <= bytes_of(allocatable["memory"])
            and wanted.gpus + (used.gpus if used else 0) <= int(allocatable.get("nvidia.com/gpu", 0))
        )

    async def _prepare(self, key: Key, uid: str) -> bool:
        """Pulls, reads the Secrets, creates. False where it never begins."""
        self._status(key, {"phase": "Pending", "startTime": now_text()}, _waiting("ContainerCreating"))
        tries = 0
        while self._is_there(key, uid):
            pod = self.server.store.get(key)
            if _deadline_is_over(pod) or "deletionTimestamp" in pod["metadata"]:
                return self._never_began(key, pod)
            try:
                if (door := door_of(pod)) is not None:
                    await self._pull(merged_image(pod, door["image"]))
            except PullFailedError as exc:
                tries += 1
                reason = "ErrImagePull" if tries == 1 else "ImagePullBackOff"
                self._status(key, {}, _waiting("PodInitializing"))
                self._beside(key, _waiting(reason, str(exc)))
                await self._until_changed(key, _PULL_BACKOFF_S)
                continue
            try:
                config = await self._pull(pod)
                environment = self._environment(pod)
            except (PullFailedError, KeyError) as exc:
                tries += 1
                pull = isinstance(exc, PullFailedError)
                first, then = (
                    ("ErrImagePull", "ImagePullBackOff") if pull else ("CreateContainerConfigError",) * 2
                )
                self._status(key, {}, _waiting(first if tries == 1 else then, str(exc)))
                if not await self._until_changed(key, _PULL_BACKOFF_S):
                    continue
                continue
            image = self.images[config["config"]["Labels"][BEHAVIOUR]]
            command = _expanded(pod, environment) or list(config["config"].get("Cmd") or ())
            if (
                image.commands is not None
                and command
                and command[0] not in image.commands
                and pod["spec"]["containers"][0].get("command")
            ):
                self._could_not_start(key, command[0])
                return False
            self.containers[uid] = Running(image, _now_s(), environment=environment, command=command)
            return True
        return False

    def _never_began(self, key: Key, pod: dict[str, Any]) -> bool:
        if "deletionTimestamp" in pod["metadata"]:
            self.server.store.delete(key)
        else:
            message = "Pod was active on the node longer than the specified deadline"
            self._status(key, {"phase": "Failed", "reason": "DeadlineExceeded", "message": message}, None)
        return False

    def _could_not_start(self, key: Key, program: str) -> None:
        message = (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to "
            f'start container process: exec: "{program}": executable file not found in $PATH: unknown'
        )
        terminated = {
            "exitCode": 128,
            "reason": "StartError",
            "message": message,
            "startedAt": "1970-01-01T00:00:00Z",
            "finishedAt": now_text(),
        }
        self._status(key, {"phase": "Failed"}, {"terminated": terminated})

    async def _pull(self, pod: dict[str, Any]) -> dict[str, Any]:
        """As containerd does: the manifest by its digest, then the configuration."""
        name, _, digest = pod["spec"]["containers"][0]["image"].partition("@")
        host, _, repository = name.partition("/")
        secret = self.server.store.objects.get(
            ("secrets", pod["metadata"]["namespace"], pod["spec"]["imagePullSecrets"][0]["name"])
        )
        if secret is None:
            raise PullFailedError(f'failed to pull image "{name}": no credentials')
        logins = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))["auths"]
        if name not in logins:
            raise PullFailedError(f'failed to pull image "{name}": no credentials for it')
        headers = {"Authorization": f"Basic {logins[name]['auth']}"}
        try:
            manifest = await self._fetch(f"http://{host}/v2/{repository}/manifests/{digest}", digest, headers)
            config_digest = json.loads(manifest)["config"]["digest"]
            return dict(
                json.loads(
                    await self._fetch(
                        f"http://{host}/v2/{repository}/blobs/{config_digest}", config_digest, headers
                    )
                )
            )
        except aiohttp.ClientError as exc:
            raise PullFailedError(f'failed to pull and unpack image "{name}@{digest}": {exc}') from exc

    async def _fetch(self, url: str, digest: str, headers: Mapping[str, str]) -> bytes:
        async with self._http.get(url, headers=headers) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise PullFailedError(
                    f"failed to resolve reference: unexpected status from GET request to {url}: {answer.status}"
                )
            if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
                raise PullFailedError("content digest mismatch")
            return body

    def _environment(self, pod: dict[str, Any]) -> dict[str, str]:
        main = pod["spec"]["containers"][0]
        name = main["envFrom"][0]["secretRef"]["name"]
        secret = self.server.store.objects.get(("secrets", pod["metadata"]["namespace"], name))
        if secret is None:
            raise KeyError(f'secret "{name}" not found')
        values = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        return values | {one["name"]: one["value"] for one in main.get("env") or ()}

    async def _run(self, key: Key, uid: str) -> None:
        container, pod = self.containers[uid], self.server.store.get(key)
        if not pod["status"].get("podIP"):
            address = await self._address(uid)
            await self._open_door(key, uid, address)
            await self._listen(pod, uid, address)
            running = {"running": {"startedAt": now_text()}}
            self._status(key, {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}, running)
        if pod["metadata"]["labels"][LABEL_CONTAINER] == CANARY:
            self._try_addresses(pod, container)
        speaking = asyncio.create_task(self._speak(container))
        try:
            await self._until_its_end(key, uid, container)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _open_door(self, key: Key, uid: str, address: str) -> None:
        """Before its process begins, as a kubelet does with a sidecar."""
        pod = self.server.store.get(key)
        door = door_of(pod)
        if door is None:
            return
        secret = pod["spec"]["volumes"][-1]["secret"]["secretName"]
        held = self.server.store.objects[("secrets", pod["metadata"]["namespace"], secret)]["data"]
        if self.really_listen:
            files = {name: base64.b64decode(content) for name, content in held.items()}
            self._doors[uid] = await start_door(files, address, door["command"])
            await until_it_listens(address, door["ports"][0]["containerPort"])
        self._beside(key, {"running": {"startedAt": now_text()}})

    async def _let_go(self, uid: str) -> None:
        """Of whatever it had, once its process has ended: its door, then its address."""
        if (door := self._doors.pop(uid, None)) is not None:
            await door.end()
        address = self._given.pop(uid, None)
        if address is not None and self.pool is not None:
            self.pool.append(address)

    def _beside(self, key: Key, state: dict[str, Any]) -> None:
        status = {"name": "door", "state": state, "restartCount": 0, "started": "running" in state}
        self._change(key, lambda pod: pod["status"].update(initContainerStatuses=[status]))

    async def _until_its_end(self, key: Key, uid: str, container: Running) -> None:
        image = container.image
        ends_at_s = None if image.exits_after_s is None else container.started_s + image.exits_after_s
        asked_at_s: float | None = None
        while self._is_there(key, uid):
            pod = self.server.store.get(key)
            if pod["spec"]["nodeName"] in self.stopped_kubelets or pod["status"]["phase"] in _ENDED:
                return
            now_s, deleted = _now_s(), "deletionTimestamp" in pod["metadata"]
            if asked_at_s is None and (deleted or _deadline_is_over(pod)):
                asked_at_s = now_s
            if asked_at_s is not None:
                grace_s = pod["metadata"].get(
                    "deletionGracePeriodSeconds", pod["spec"]["terminationGracePeriodSeconds"]
                )
                if image.ends_on_request or now_s >= asked_at_s + grace_s / SPEED:
                    code = _TERMINATED if image.ends_on_request else _KILLED
                    self._ended(key, container, code, deadline=not deleted)
                    if deleted:
                        self.server.store.delete(key)
                    return
            if ends_at_s is not None and now_s >= ends_at_s:
                self._say_the_rest(container)
                self._ended(key, container, _KILLED if image.out_of_memory else image.exit_code)
                return
            await self._look(key, container)
            if self.restarts_by_itself:
                self._change(key, lambda one: one["status"]["containerStatuses"][0].update(restartCount=1))
                return
            wait_s = 0.02 if ends_at_s is None else min(0.02, max(ends_at_s - now_s, 0.001))
            await asyncio.sleep(wait_s)

    def _try_addresses(self, pod: dict[str, Any], container: Running) -> None:
        """As its script would."""
        if pod["spec"]["nodeName"] in self.leaks:
            container.say(f"reached 127.0.0.1 {self.server.port}".encode(), int(_now_s() * 1e9))
        if self.canaries_are_able:
            container.say(b"able", int(_now_s() * 1e9))
        container.say(b"tried", int(_now_s() * 1e9))

    async def _look(self, key: Key, container: Running) -> None:
        """Runs what was put beside it: prints where it listens."""
        pod = self.server.store.get(key)
        looks, known = (
            pod["spec"].get("ephemeralContainers") or [],
            len(pod["status"].get("ephemeralContainerStatuses") or []),
        )
        for look in looks[known:]:
            try:
                await self._pull(merged_image(pod, look["image"]))
            except PullFailedError as exc:
                container.look_failed = str(exc)
                return  # and tries again
            port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
            header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
            row = f"   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n"
            container.looks[look["name"]] = header + (row if container.image.listens else "") + header
            terminated = {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": now_text(),
                "finishedAt": now_text(),
            }
            status = {"name": look["name"], "state": {"terminated": terminated}}

            def add(one: dict[str, Any], status: dict[str, Any] = status) -> None:
                one["status"].setdefault("ephemeralContainerStatuses", []).append(status)

            self._change(key, add)

    async def _speak(self, container: Running) -> None:
        for line in container.image.output:
            due_s = container.started_s + line.after_s
            await asyncio.sleep(max(0.0, due_s - _now_s()))
            container.say(line.data, int(due_s * 1e9))

    def _say_the_rest(self, container: Running) -> None:
        for line in container.image.output[len(container.lines) :]:
            container.say(line.data, int((container.started_s + line.after_s) * 1e9))

    def _ended(self, key: Key, container: Running, code: int, *, deadline: bool = False) -> None:
        oom = container.image.out_of_memory and code == _KILLED
        pod = self.server.store.get(key)
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        reason = "OOMKilled" if oom else ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now_text()}
        status = {"phase": "Succeeded" if code == 0 and not deadline else "Failed"}
        if deadline:
            status |= {
                "reason": "DeadlineExceeded",
                "message": "Pod was active on the node longer than the specified deadline",
            }
        self._stop_listening(key)
        container.ended.set()
        container.spoke.set()
        self._status(key, status, {"terminated": terminated})

    def end(self, key: Key, code: int = 1) -> None:
        """Its process ends by itself."""
        self._ended(key, self.containers[self.server.store.get(key)["metadata"]["uid"]], code)

    def _end_pod(self, key: Key, reason: str, message: str, code: int) -> None:
        container = self.containers[self.server.store.get(key)["metadata"]["uid"]]
        self._ended(key, container, code)
        self._change(key, lambda pod: pod["status"].update(phase="Failed", reason=reason, message=message))

    async def _listen(self, pod: dict[str, Any], uid: str, address: str) -> None:
        if not self.really_listen or not self.containers[uid].image.listens:
            return

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                plain = f"HTTP/1.1 {self.health_status} X\r\nContent-Length: 0\r\n\r\n".encode()
                writer.write(self.answers(pod, head) if self.answers is not None else plain)
            writer.close()

        port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        self._listeners[uid] = await asyncio.start_server(answer, address, port)

    def _stop_listening(self, key: Key) -> None:
        listener = self._listeners.pop(self.server.store.get(key)["metadata"]["uid"], None)
        if listener is not None:
            listener.close()

    async def _address(self, uid: str) -> str:
        if self.pool is not None:
            while not self.pool:  # noqa: ASYNC110 - several may wait, and one address serves one of them
                await asyncio.sleep(0.005)
            self._given[uid] = self.pool.pop(0)
            return self._given[uid]
        self._next_address += 1
        return f"{self.addresses}.{self._next_address // 250}.{self._next_address % 250 + 1}"

    async def _read_log(self, pod: dict[str, Any], request: web.Request) -> web.StreamResponse:
        container = self.containers.get(pod["metadata"]["uid"])
        if container is None:
            message = (
                f'container "main" in pod "{pod["metadata"]["name"]}" is waiting to start: ContainerCreating'
            )
            return web.json_response(
                {"kind": "Status", "reason": "BadRequest", "message": message, "code": 400}, status=400
            )
        if (looked := container.looks.get(request.query["container"])) is not None:
            return web.Response(text=looked)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        since = request.query.get("sinceTime")
        since_ns = int(datetime.fromisoformat(since).timestamp()) * 10**9 if since else 0
        given = 0
        if "tailLines" in request.query:
            given = max(0, len(container.lines) - int(request.query["tailLines"]))
        while True:
            container.spoke.clear()
            for time_ns, data in container.lines[given:]:
                if time_ns >= since_ns:
                    await response.write(_log_time(time_ns).encode() + b" " + data + b"\n")
            given = len(container.lines)
            if request.query.get("follow") != "true" or container.ended.is_set():
                return response
            await container.spoke.wait()

    def _figures(self) -> str:
        lines = ["# TYPE container_cpu_usage_seconds_total counter"]
        for pod in self.running():
            container = self.containers[pod["metadata"]["uid"]]
            labels = f'{{container="main",namespace="{pod["metadata"]["namespace"]}",pod="{pod["metadata"]["name"]}"}}'
            ran_s, now_ms = _now_s() - container.started_s, int(_now_s() * 1000)
            cpu_s = ran_s * container.image.cpu_millis / 1000
            lines.append(f"container_cpu_usage_seconds_total{labels} {cpu_s:.6f} {now_ms}")
            lines.append(
                f"container_memory_working_set_bytes{labels} {container.image.memory_bytes:e} {now_ms}"
            )
        return "\n".join(lines) + "\n"

    def _is_there(self, key: Key, uid: str) -> bool:
        return key in self.server.store.objects and self.server.store.objects[key]["metadata"]["uid"] == uid

    async def _until_changed(self, key: Key, within_s: float) -> bool:
        """Whether its image, its end or its deadline changed before a kubelet would try again by itself."""
        before = self.server.store.get(key)["spec"]
        deadline_s = _now_s() + within_s / SPEED
        while _now_s() < deadline_s:
            pod = self.server.store.objects.get(key)
            if pod is None or pod["spec"] != before or "deletionTimestamp" in pod["metadata"]:
                return True
            await asyncio.sleep(0.01)
        return False

    def _change(self, key: Key, change: Any) -> None:
        item = copy.deepcopy(self.server.store.get(key))
        change(item)
        self.server.store.update(key, item)

    def _set_ready(self, name: str, status: str, since: datetime | None = None) -> None:
        condition = _ready(status)
        if since is not None:
            condition["lastTransitionTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._change(("nodes", "", name), lambda node: node["status"].update(conditions=[condition]))

    def _condition(
        self, key: Key, kind: str, status: str, reason: str | None = None, message: str | None = None
    ) -> None:
        def change(pod: dict[str, Any]) -> None:
            conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
            others = [one for one in conditions if one["type"] != kind]
            before = next((one for one in conditions if one["type"] == kind), {})
            since = before.get("lastTransitionTime") if before.get("status") == status else None
            body = {"type": kind, "status": status, "lastTransitionTime": since or now_text()}
            body |= {"reason": reason} if reason else {}
            body |= {"message": message} if message else {}
            pod["status"]["conditions"] = [*others, body]

        self._change(key, change)

    def _status(self, key: Key, status: dict[str, Any], state: dict[str, Any] | None) -> None:
        def change(pod: dict[str, Any]) -> None:
            pod["status"].update(status)
            if state is not None:
                main = {
                    "name": "main",
                    "state": state,
                    "lastState": {},
                    "restartCount": 0,
                    "ready": "running" in state,
                }
                pod["status"]["containerStatuses"] = [main]

        self._change(key, change)


def _tell_of_failure(task: asyncio.Task[None]) -> None:
    """A test that waits for such a Pod in vain says why."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        print("".join(traceback.format_exception(failure)))


def merged_image(pod: dict[str, Any], image: str) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "containers": [{**pod["spec"]["containers"][0], "image": image}]}}


def merged_node(pod: dict[str, Any], node: str) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _expanded(pod: dict[str, Any], environment: Mapping[str, str]) -> list[str]:
    return [
        environment.get(word.removeprefix("$(").removesuffix(")"), word)
        for word in pod["spec"]["containers"][0].get("command") or ()
    ]


def _deadline_is_over(pod: dict[str, Any]) -> bool:
    deadline_s = pod["spec"].get("activeDeadlineSeconds")
    return deadline_s is not None


def _ready(status: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": now_text()}


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def _key(pod: dict[str, Any]) -> Key:
    return "pods", pod["metadata"]["namespace"], pod["metadata"]["name"]


def _now_s() -> float:
    return datetime.now(UTC).timestamp()


def _log_time(time_ns: int) -> str:
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{nanoseconds:09d}Z"
