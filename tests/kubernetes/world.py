"""A stand-in cluster with an engine in front of it, as a world of the contract suite."""

import asyncio
import gzip
import hashlib
import json
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from moorage.engines.base import ImageRequest, LogStream
from moorage.engines.doors import Doors
from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.cluster_settings import ClusterSettings
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.namespace_body import NamespaceRules, ServiceAccount
from moorage.engines.kubernetes.nodes import Isolation
from moorage.engines.kubernetes.objects import cluster_objects
from moorage.engines.kubernetes.pod_body import ClusterOptions
from moorage.engines.simulated_machine import SimulatedImage, SimulatedOutput
from moorage.kit.clock import system_clock
from moorage.kit.ids import InstallationId, new_installation_id
from moorage.outbound.pulls.proxy import PullProxy
from tests.door_process import OneAuthority
from tests.engine.contract import Traits
from tests.engine.registry import Registry
from tests.kubernetes.api_server import StandIn
from tests.kubernetes.nodes import BEHAVIOUR, Nodes

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
CONTROLLER = ServiceAccount("moorage", "moorage-controller")
_DEADLINE_S = 20.0
_MEBIBYTE = 2**20
_PRINTS = (
    SimulatedOutput(0.0, LogStream.STDOUT, b"one"),
    SimulatedOutput(0.1, LogStream.STDERR, b"two"),
    SimulatedOutput(0.2, LogStream.STDOUT, b"three"),
)
IMAGES = {
    "serves": SimulatedImage(exposed_ports=(8000,), commands=frozenset({"serve"})),
    "exits": SimulatedImage(exits_after_s=0.3, exit_code=3),
    "prints": SimulatedImage(exits_after_s=0.3, output=_PRINTS),
    "runs_out_of_memory": SimulatedImage(exits_after_s=0.2, out_of_memory=True),
    "computes": SimulatedImage(cpu_millis=500),
    "holds_memory": SimulatedImage(memory_bytes=17 * _MEBIBYTE),
    "ignores_stop": SimulatedImage(ends_on_request=False),
    "looks": SimulatedImage(exits_after_s=0.0),
}


class ImageRegistry(Registry):
    """Each image says by a label what its replicas do."""

    def __init__(self, images: Mapping[str, SimulatedImage], **options: Any) -> None:
        super().__init__(ARCHITECTURE, **options)
        for name, image in images.items():
            self.add(name, name, image.exposed_ports or (8000,))

    def add(self, name: str, behaviour: str, ports: tuple[int, ...] = (8000,)) -> None:
        layer = gzip.compress(name.encode(), mtime=0)
        config = json.dumps(
            {
                "architecture": ARCHITECTURE,
                "os": "linux",
                "config": {
                    "Cmd": ["serve"],
                    "Labels": {BEHAVIOUR: behaviour},
                    "ExposedPorts": {f"{port}/tcp": {} for port in ports},
                },
                "rootfs": {
                    "type": "layers",
                    "diff_ids": [f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"],
                },
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": self._blob(config, "application/vnd.docker.container.image.v1+json"),
            "layers": [self._blob(layer, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
        self.manifests[name] = json.dumps(manifest).encode()
        self.contents[self.digest(name)] = self.manifests[name]


class ClusterWorld:
    """What the contract suite asks for; everything about it that is not a cluster's is in `StandIn` and `Nodes`."""

    traits = Traits(
        keeps_caches=False,
        allocates_ports=False,
        tells_streams_apart=False,
        asks_from_inside=False,
        names_are_shared=False,
        has_doors=True,
        pins_to="@sha256:",
    )
    replicas_at = "127.80."

    def __init__(
        self,
        server: StandIn,
        nodes: Nodes,
        registry: Registry,
        pulls: PullProxy,
        kubeconfig: Path,
        doors: Doors,
    ) -> None:
        self.server, self.nodes, self.registry, self.pulls = server, nodes, registry, pulls
        self.kubeconfig = kubeconfig
        self.doors = doors
        self.unknown_remote_image = f"{registry.host}/absent:1"
        self.installation_id, self.other_installation_id = new_installation_id(), new_installation_id()
        self.engine = self.new_engine(self.installation_id)
        self.other_engine = self.new_engine(self.other_installation_id)

    def new_engine(
        self, installation_id: InstallationId, pulls: PullProxy | None = None, **changes: Any
    ) -> KubernetesEngine:
        """Another process's: it knows nothing but what the cluster says."""
        rules = NamespaceRules(installation_id, controller=CONTROLLER)
        settings = ClusterSettings(
            rules,
            ClusterOptions(stop_grace_s=1),
            local_registry=self.registry.host,
            isolation=Isolation(),
            figures_every_s=0.1,
            looker=ImageRequest("local/looks:test", local=True),
            look_after_s=0.0,
            door=ImageRequest("local/door:test", local=True),
        )
        return KubernetesEngine(
            account_from(str(self.kubeconfig)),
            replace(settings, **changes),
            system_clock,
            pulls or self.pulls,
            self.doors,
        )

    def image(self, behaviour: str) -> ImageRequest:
        return ImageRequest(f"local/{behaviour}:test", local=True)

    def command(self, behaviour: str) -> tuple[str, ...] | None:
        return None

    def free_port(self) -> int | None:
        return None

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not await condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def cluster_world(
    certificate: Path,
    folder: Path,
    images: Mapping[str, SimulatedImage] = IMAGES,
    nodes: tuple[str, ...] = ("node-1",),
    doors: Doors | None = None,
    **options: Any,
) -> AsyncIterator[ClusterWorld]:
    images = {"door": SimulatedImage(), **images}
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(ImageRegistry(images))
        pulls = await stack.enter_async_context(
            PullProxy(
                system_clock,
                allowed_registries=(registry.host,),
                max_image_bytes=2**30,
                pulls_per_organization=3,
            )
        )
        server = await stack.enter_async_context(StandIn(certificate))
        machines = await stack.enter_async_context(Nodes(server, images, **options))
        for name in nodes:
            machines.add(name, architecture=ARCHITECTURE)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        world = ClusterWorld(server, machines, registry, pulls, kubeconfig, doors or OneAuthority())
        apply(server, world.installation_id)
        for engine in (world.engine, world.other_engine):
            stack.push_async_callback(engine.close)
        yield world


def apply(server: StandIn, installation_id: InstallationId) -> None:
    """What an operator applies before."""
    for body in cluster_objects(installation_id, CONTROLLER, None):
        plural = {"PriorityClass": "priorityclasses"}.get(body["kind"], body["kind"].lower() + "s")
        server.store.create((plural, "", body["metadata"]["name"]), body)
