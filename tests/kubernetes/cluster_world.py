"""A real cluster as a world of the contract suite, spoken to with the account and the rights that the operator's objects give."""

import asyncio
import gzip
import io
import json
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from moorage.engines.base import ImageRequest
from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.cluster_settings import ClusterSettings
from moorage.engines.kubernetes.connection import ApiError, ApiServer
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.names import namespace_prefix
from moorage.engines.kubernetes.namespace_body import NamespaceRules, ServiceAccount
from moorage.engines.kubernetes.nodes import Isolation
from moorage.engines.kubernetes.objects import cluster_objects
from moorage.engines.kubernetes.pod_body import ClusterOptions
from moorage.kit.clock import system_clock
from moorage.kit.ids import InstallationId, new_installation_id
from moorage.outbound.pulls.proxy import PullProxy
from tests.door_process import OneAuthority
from tests.engine.conftest import COMMANDS
from tests.engine.contract import Traits
from tests.engine.registry import Registry, digest_of
from tests.kubernetes.door_layer import door_layer
from tests.kubernetes.real_api_server import program
from tests.kubernetes.real_cluster import ADDRESS, ARCHITECTURE, POD_PREFIX, RealCluster

CONTROLLER = ServiceAccount("moorage", "moorage-controller")
_DEADLINE_S = 60.0
_APPLETS = ("sh", "cat", "dd", "echo", "head", "httpd", "nc", "printf", "sleep", "true", "wget", "yes", "id")
_GROUPS = {
    "PriorityClass": "scheduling.k8s.io/v1/priorityclasses",
    "ClusterRole": "rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


class BusyboxRegistry(Registry):
    def __init__(self) -> None:
        super().__init__(ARCHITECTURE)
        self._add("busybox", _busybox_layer())
        self._add("door", door_layer())

    def _add(self, name: str, layer: bytes) -> None:
        packed = gzip.compress(layer, mtime=0)
        config = {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"], "ExposedPorts": {"8000/tcp": {}}},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": self._blob(
                json.dumps(config).encode(), "application/vnd.docker.container.image.v1+json"
            ),
            "layers": [self._blob(packed, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
        self.manifests[name] = json.dumps(manifest).encode()
        self.contents[self.digest(name)] = self.manifests[name]


class RealWorld:
    traits = Traits(
        keeps_caches=False,
        allocates_ports=False,
        tells_streams_apart=False,
        asks_from_inside=False,
        names_are_shared=False,
        has_doors=True,
        pins_to="@sha256:",
    )
    replicas_at = POD_PREFIX

    def __init__(
        self, cluster: RealCluster, registry: Registry, pulls: PullProxy, admin: ApiServer, pull_address: str
    ) -> None:
        self.cluster, self.registry, self.pulls, self.admin = cluster, registry, pulls, admin
        self.pull_address = pull_address
        self.doors = OneAuthority()
        self.unknown_remote_image = f"{registry.host}/absent:1"
        # The same for all tests: the policies that hold its controller name it, and take a moment to be obeyed.
        self.installation_id = InstallationId("ins_of_this_cluster")
        self.other_installation_id = new_installation_id()
        self.kubeconfig = ""

    async def begin(self) -> None:
        token = await self._account()
        for body in cluster_objects(self.installation_id, CONTROLLER, self.pull_address):
            await self._made(f"/apis/{_GROUPS[body['kind']]}", body)
        self.kubeconfig = str(self.cluster.server.kubeconfig_of_token("controller.conf", token))
        self.engine = self.new_engine(self.installation_id)
        # It has rights of its own: whatever it does not see is not for lack of them.
        admin = str(self.cluster.server.kubeconfig("admin"))
        self.other_engine = self.new_engine(self.other_installation_id, kubeconfig=admin, controller=None)

    async def end(self) -> None:
        namespaces = (await self.admin.call("list", "GET", "/api/v1/namespaces"))["items"]
        for name in (one["metadata"]["name"] for one in namespaces):
            for installation_id in (self.installation_id, self.other_installation_id):
                if name.startswith(namespace_prefix(installation_id)):
                    pods = f"/api/v1/namespaces/{name}/pods"
                    await self.admin.call("empty", "DELETE", pods, query={"gracePeriodSeconds": "0"}, body={})
                    await self.admin.call("end", "DELETE", f"/api/v1/namespaces/{name}", body={})
        for engine in (self.engine, self.other_engine):
            await self.until(partial(_is_empty, engine))
            await engine.close()

    def new_engine(
        self,
        installation_id: InstallationId,
        *,
        kubeconfig: str | None = None,
        controller: ServiceAccount | None = CONTROLLER,
        **changes: Any,
    ) -> KubernetesEngine:
        settings = ClusterSettings(
            NamespaceRules(installation_id, controller=controller, caller_networks=(f"{ADDRESS}/32",)),
            ClusterOptions(stop_grace_s=1, cpu_overcommit=16.0),
            pull_address=self.pull_address,
            local_registry=self.registry.host,
            isolation=Isolation(),
            figures_every_s=1.0,
            looker=ImageRequest("local/busybox:test", local=True),
            look_after_s=0.0,
            door=ImageRequest("local/door:test", local=True),
        )
        account = account_from(kubeconfig or self.kubeconfig)
        return KubernetesEngine(account, replace(settings, **changes), system_clock, self.pulls, self.doors)

    def image(self, behaviour: str) -> ImageRequest:
        return ImageRequest("local/busybox:test", local=True)

    def command(self, behaviour: str) -> tuple[str, ...]:
        return ("/bin/sh", "-c", COMMANDS[behaviour])

    def free_port(self) -> int | None:
        return None

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not await condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            await asyncio.sleep(0.1)

    async def _account(self) -> str:
        """A token of the controller's service account, as its Pod would have it."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTROLLER.namespace}}
        await self._made("/api/v1/namespaces", namespace)
        accounts = f"/api/v1/namespaces/{CONTROLLER.namespace}/serviceaccounts"
        await self._made(accounts, {"metadata": {"name": CONTROLLER.name}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await self.admin.call("token", "POST", f"{accounts}/{CONTROLLER.name}/token", body=request)
        return str(answer["status"]["token"])

    async def _made(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self.admin.call("make", "POST", path, body=body)
        except ApiError as exc:
            if exc.status != 409:
                raise


@asynccontextmanager
async def real_world(cluster: RealCluster) -> AsyncIterator[RealWorld]:
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(BusyboxRegistry())
        pulls = await stack.enter_async_context(
            PullProxy(
                system_clock,
                allowed_registries=(registry.host,),
                max_image_bytes=2**30,
                pulls_per_organization=3,
            )
        )
        pull_address = f"{ADDRESS}:{cluster.pull_port}"
        await pulls.open_door(ADDRESS, cluster.pull_port)
        cluster.trust(pull_address)
        admin = ApiServer(account_from(str(cluster.server.kubeconfig("admin"))), system_clock)
        stack.push_async_callback(admin.close)
        world = RealWorld(cluster, registry, pulls, admin, pull_address)
        await world.begin()
        stack.push_async_callback(world.end)
        yield world


async def _is_empty(engine: KubernetesEngine) -> bool:
    return not await engine.list_replicas()


def _busybox_layer() -> bytes:
    busybox = program("busybox")
    assert busybox is not None
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for path, data, mode in (
            ("bin/busybox", busybox.read_bytes(), 0o755),
            ("www/index.html", b"hello from busybox\n", 0o644),
            ("etc/not-executable", b"#!/bin/sh\n", 0o644),
            ("bin/foreign", b"no program of any processor\n", 0o755),
        ):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return layer.getvalue()
