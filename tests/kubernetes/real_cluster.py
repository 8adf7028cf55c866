"""A real cluster on one machine, for tests: the control plane here, and nodes with containerd and a kubelet, each in network, mount
and process namespaces of its own, joined by a bridge. Needs root. Ending it leaves nothing behind.

    10.77.0.1        this side of the bridge: API server, pull proxy
    10.77.0.11, …    the nodes
    10.244.11.0/24…  their Pods, routed by way of their node
"""

import asyncio
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.nodes import node_seen
from moorage.kit.clock import system_clock
from tests.kubernetes.real_api_server import (
    RealApiServer,
    missing,
    program,
    programs_folder,
    real_api_server,
    running,
)
from tests.ports import free_port

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "containerd",
    "containerd-shim-runc-v2",
    "runc",
    "ctr",
    "bridge",
    "busybox",
    "nsenter",
    "unshare",
    "ip",
)
BRIDGE, ADDRESS = "mkube0", "10.77.0.1"
POD_PREFIX = "10.244."
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
PAUSE = "localhost/pause:3.10"
_READY_WITHIN_S = 120.0


def lacking() -> list[str]:
    """Programs that a cluster needs and that are not there."""
    return missing(*(name for name in PROGRAMS if name != "bridge")) + (
        [] if _plugins() is not None else ["CNI plugins"]
    )


@dataclass
class RealNode:
    name: str
    address: str
    pods: str
    folder: Path
    holder: subprocess.Popen[bytes]
    init: int
    """The process that is the first of its namespaces: all others end with it."""
    kubelet: subprocess.Popen[bytes] | None = None
    veth: str = ""

    @property
    def inside(self) -> tuple[str, ...]:
        return ("nsenter", "-t", str(self.init), "-n", "-m", "-p")

    def kill_kubelet(self) -> None:
        assert self.kubelet is not None
        os.killpg(self.kubelet.pid, signal.SIGKILL)
        self.kubelet.wait()

    def cut_off(self) -> None:
        """As if its cable were pulled."""
        run("ip", "link", "set", self.veth, "down")

    def join_again(self) -> None:
        run("ip", "link", "set", self.veth, "up")


@dataclass
class RealCluster:
    server: RealApiServer
    folder: Path
    nodes: dict[str, RealNode] = field(default_factory=dict)
    registry_hosts: Path = field(init=False)
    pull_port: int = field(default_factory=free_port)
    """Where the pull proxy of each test listens: the policies name it."""

    def __post_init__(self) -> None:
        self.registry_hosts = self.folder / "registries"
        self.registry_hosts.mkdir()

    def trust(self, registry: str) -> None:
        """Nodes speak plain HTTP to it, as they do to a node port on loopback."""
        folder = self.registry_hosts / registry
        folder.mkdir(exist_ok=True)
        host = f'server = "http://{registry}"\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n'
        (folder / "hosts.toml").write_text(host)

    def start_kubelet(self, node: RealNode) -> None:
        command = [
            *node.inside,
            str(program("kubelet")),
            f"--config={node.folder}/kubelet.yaml",
            f"--kubeconfig={self.server.folder}/{node.name}.conf",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
        ]
        with (node.folder / "kubelet.log").open("ab") as log:
            node.kubelet = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )


@asynccontextmanager
async def real_cluster(nodes: int = 1) -> AsyncIterator[RealCluster]:
    folder = _short_folder()
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(_remove_bridge)
        _make_bridge()
        server = await stack.enter_async_context(real_api_server(folder / "api", ADDRESS))
        for name, user in (("kcm", "system:kube-controller-manager"), ("scheduler", "system:kube-scheduler")):
            server.authority.issue(name, user)
        for name, command in _control_plane(server).items():
            await stack.enter_async_context(running(folder, name, command))
        cluster = RealCluster(server, folder)
        for index in range(1, nodes + 1):
            await stack.enter_async_context(_node(cluster, index))
        await _until_ready(cluster)
        yield cluster


def _short_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mk-", dir="/tmp"))  # containerd's socket lies in it
    folder.chmod(0o755)
    return folder


def _control_plane(server: RealApiServer) -> dict[str, list[str]]:
    keys = server.folder
    manager, scheduler = server.kubeconfig("kcm"), server.kubeconfig("scheduler")
    return {
        "kube-controller-manager": [
            str(program("kube-controller-manager")),
            f"--kubeconfig={manager}",
            f"--authentication-kubeconfig={manager}",
            f"--authorization-kubeconfig={manager}",
            f"--service-account-private-key-file={keys}/accounts.key",
            f"--root-ca-file={keys}/ca.crt",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            f"--flex-volume-plugin-dir={keys}/flex",
            # A node that is silent is said to be so after 12 s and not 50: tests wait for it.
            "--node-monitor-grace-period=12s",
            "--node-monitor-period=1s",
        ],
        "kube-scheduler": [
            str(program("kube-scheduler")),
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        ],
    }


@asynccontextmanager
async def _node(cluster: RealCluster, index: int) -> AsyncIterator[RealNode]:
    async with AsyncExitStack() as stack:
        node = _make_node(cluster, index)
        stack.push_async_callback(asyncio.to_thread, _end_node, node)
        cluster.nodes[node.name] = node
        command = [*node.inside, str(program("containerd")), "-c", f"{node.folder}/containerd.toml"]
        await stack.enter_async_context(_daemon(node.folder, "containerd", command))
        await _until(lambda: _containerd_answers(node), "containerd answers")
        await asyncio.to_thread(_import_pause, node)
        cluster.start_kubelet(node)
        yield node


@asynccontextmanager
async def _daemon(folder: Path, name: str, command: list[str]) -> AsyncIterator[None]:
    os.environ.update(_environment())
    async with running(folder, name, command):
        yield


def _make_node(cluster: RealCluster, index: int) -> RealNode:
    name, address, pods = f"node-{index}", f"10.77.0.{10 + index}", f"{POD_PREFIX}{10 + index}.0/24"
    folder = cluster.folder / name
    for part in ("kubelet", "cni-state", "pods", "containers", "cni", "sys", "flex", "netns"):
        (folder / part).mkdir(parents=True)
    holder = subprocess.Popen(
        [
            "unshare",
            "-n",
            "-m",
            "-p",
            "-f",
            "--kill-child",
            "--mount-proc",
            str(program("busybox")),
            "sleep",
            "86400",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    veth = f"mkube{index}v"
    node = RealNode(name, address, pods, folder, holder, _child_of(holder.pid), veth=veth)
    try:
        _furnish(cluster, node)
    except BaseException:
        _end_node(node)
        raise
    return node


def _furnish(cluster: RealCluster, node: RealNode) -> None:
    name, address, pods, folder, init, veth = (
        node.name,
        node.address,
        node.pods,
        node.folder,
        node.init,
        node.veth,
    )
    _remove_link(veth)  # of a namespace that ended a moment ago
    run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", str(init))
    run("ip", "link", "set", veth, "master", BRIDGE, "up")
    _in(node, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
    for link in ("lo", "eth0"):
        _in(node, "ip", "link", "set", link, "up")
    _in(node, "ip", "route", "add", "default", "via", ADDRESS)
    run("ip", "route", "replace", pods, "via", address)
    for other in cluster.nodes.values():
        _in(node, "ip", "route", "replace", other.pods, "via", other.address)
        _in(other, "ip", "route", "replace", pods, "via", address)
    _in(node, "sh", "-ec", _MOUNTS.format(folder=folder))
    for controller in _controllers():
        (controller / "moorage-test" / name).mkdir(parents=True, exist_ok=True)
        if controller.name == "cpuset":
            _in(node, "sh", "-c", _CPUSET.format(folder=controller, name=name))
    cluster.server.authority.issue(name, f"system:node:{name}", "system:nodes", hosts=(address, name))
    cluster.server.kubeconfig(name)
    (folder / "containerd.toml").write_text(_containerd_config(cluster, node))
    (folder / "kubelet.yaml").write_text(json.dumps(_kubelet_config(cluster, node)))
    ipam = {
        "type": "host-local",
        "dataDir": f"{folder}/cni-state/networks",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": ipam}
    network = {"cniVersion": "0.4.0", "name": "test", "plugins": [plugin]}
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(network))


_MOUNTS = """
mount --make-rshared /
mkdir -p /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /run/netns
mount --bind {folder}/kubelet /var/lib/kubelet; mount --make-shared /var/lib/kubelet
mount --bind {folder}/cni-state /var/lib/cni
mount --bind {folder}/pods /var/log/pods
mount --bind {folder}/containers /var/log/containers
mount -t tmpfs tmpfs /run/netns; mount --make-shared /run/netns
show() {{ [ ! -e /proc/sys/$1 ] || {{ echo $2 > {folder}/sys/$(echo $1 | tr / .); mount --bind {folder}/sys/$(echo $1 | tr / .) /proc/sys/$1; }}; }}
show vm/overcommit_memory 1; show kernel/panic 10; show kernel/panic_on_oops 1; show vm/panic_on_oom 0
show kernel/keys/root_maxkeys 1000000; show kernel/keys/root_maxbytes 25000000
awk '$3=="cgroup" && $2 !~ "^/sys/fs/cgroup" {{print $2}}' /proc/mounts | while read m; do umount "$m"; done
echo 1 > /proc/sys/net/ipv4/ip_forward
"""
"""The kubelet would set these switches of the whole machine; it is shown the values that it wants instead."""
_CPUSET = """
for d in moorage-test moorage-test/{name}; do
  for f in cpuset.cpus cpuset.mems; do cat {folder}/$f > {folder}/$d/$f; done
done
"""


def _containerd_config(cluster: RealCluster, node: RealNode) -> str:
    return f"""
version = 2
root = "{node.folder}/containerd"
state = "{node.folder}/containerd-state"
[grpc]
  address = "{node.folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{cluster.registry_hosts}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_plugins()}"
    conf_dir = "{node.folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{program("runc")}"
        SystemdCgroup = false
"""


def _kubelet_config(cluster: RealCluster, node: RealNode) -> dict[str, Any]:
    keys = cluster.server.folder
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{keys}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/{node.name}.crt",
        "tlsPrivateKeyFile": f"{keys}/{node.name}.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/moorage-test/{node.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{node.folder}/containerd.sock",
        "resolvConf": "",
        "clusterDNS": [ADDRESS],
        "clusterDomain": "cluster.local",
        "volumePluginDir": f"{node.folder}/flex",
        "makeIPTablesUtilChains": False,
        "maxPods": 200,
        "podPidsLimit": 4096,
        "containerLogMaxSize": "64Mi",
        "containerLogMaxFiles": 2,
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "4s",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "localStorageCapacityIsolation": True,
        "featureGates": {},
    }


def _import_pause(node: RealNode) -> None:
    """Made without a registry: busybox, sleeping."""
    archive = node.folder / "pause.tar"
    busybox = program("busybox")
    assert busybox is not None
    archive.write_bytes(
        image_archive(PAUSE, {"busybox": busybox.read_bytes()}, ["/busybox", "sleep", "86400000"])
    )
    socket = f"{node.folder}/containerd.sock"
    _in(node, str(program("ctr")), "-a", socket, "-n", "k8s.io", "images", "import", str(archive))


def image_archive(name: str, files: dict[str, bytes], entrypoint: list[str]) -> bytes:
    """An OCI archive of one layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    content = add(layer.getvalue(), "layer.v1.tar")
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [content["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": [content],
    }
    entry = add(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": name}
    entry["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        parts = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
        for path, data in {**parts, **{f"blobs/sha256/{name}": data for name, data in blobs.items()}}.items():
            file = tarfile.TarInfo(path)
            file.size = len(data)
            archive.addfile(file, io.BytesIO(data))
    return whole.getvalue()


async def _until_ready(cluster: RealCluster) -> None:
    api = ApiServer(account_from(str(cluster.server.kubeconfig("admin"))), system_clock)

    async def ready() -> bool:
        nodes = (await api.call("list nodes", "GET", "/api/v1/nodes")).get("items") or []
        return {node["metadata"]["name"] for node in nodes if node_seen(node).ready} == cluster.nodes.keys()

    try:
        await _until(ready, "all nodes are ready", lambda: _last_words(cluster))
    finally:
        await api.close()


def _last_words(cluster: RealCluster) -> str:
    return "\n".join(
        f"{path}: {path.read_text(errors='replace')[-1500:]}"
        for path in (*cluster.folder.glob("*.log"), *cluster.folder.glob("node-*/*.log"))
    )


async def _containerd_answers(node: RealNode) -> bool:
    command = [*node.inside, str(program("ctr")), "-a", f"{node.folder}/containerd.sock", "version"]
    asked = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    return asked.returncode == 0


async def _until(condition: Any, what: str, else_say: Any = str) -> None:
    deadline_s = system_clock.monotonic() + _READY_WITHIN_S
    while not await condition():
        assert system_clock.monotonic() < deadline_s, f"not in time: {what}\n{else_say()}"
        await asyncio.sleep(0.2)


def _end_node(node: RealNode) -> None:
    """With its first process go all others, its mounts and its end of the bridge."""
    for pid in (node.kubelet.pid if node.kubelet is not None else 0, node.init):
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if node.kubelet is not None:
        node.kubelet.wait()
    node.holder.wait()
    _remove_link(node.veth)
    for controller in _controllers():
        for folder, _, _ in os.walk(controller / "moorage-test" / node.name, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        with suppress(OSError):
            os.rmdir(controller / "moorage-test")


def _controllers() -> list[Path]:
    """Where cgroups are kept: one tree, or one for each controller."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root]
    return [
        path
        for path in root.iterdir()
        if path.is_dir() and not path.is_symlink() and (path / "cgroup.procs").exists()
    ]


def _plugins() -> Path | None:
    inside = [Path("usr/lib/cni"), Path("lib/cni"), Path("cni")]
    places = [programs_folder() / "root" / one for one in inside] + [
        Path("/usr/lib/cni"),
        Path("/opt/cni/bin"),
    ]
    return next((place for place in places if (place / "bridge").exists()), None)


def _environment() -> dict[str, str]:
    """Programs that other programs start are found in the same places."""
    places = dict.fromkeys(str(found.parent) for name in PROGRAMS if (found := program(name)) is not None)
    return {**os.environ, "PATH": ":".join([*places, os.environ["PATH"]])}


def _make_bridge() -> None:
    _remove_bridge()
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def _remove_bridge() -> None:
    _remove_link(BRIDGE)


def _remove_link(name: str) -> None:
    subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)


def _child_of(pid: int) -> int:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    deadline_s = system_clock.monotonic() + 10
    while not (children := path.read_text().split()):
        assert system_clock.monotonic() < deadline_s, "the namespaces were not made"
    return int(children[0])


def _in(node: RealNode, *command: str) -> None:
    run(*node.inside, *command)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
