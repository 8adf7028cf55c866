"""kube-proxy on each node of a test cluster: Services and node ports."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from moorage.engines.kubernetes.connection import ApiError, ApiServer
from tests.kubernetes.real_api_server import program, running
from tests.kubernetes.real_cluster import POD_PREFIX, RealCluster, RealNode

PROGRAMS = ("kube-proxy", "iptables-legacy", "iptables-legacy-restore", "conntrack", "kubectl")
_USER = "system:kube-proxy"


@asynccontextmanager
async def kube_proxies(cluster: RealCluster, admin: ApiServer) -> AsyncIterator[None]:
    cluster.server.authority.issue("proxy", _USER)
    cluster.server.kubeconfig("proxy")
    binding = {
        "metadata": {"name": "kube-proxy"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:node-proxier",
        },
        "subjects": [{"kind": "User", "name": _USER}],
    }
    try:
        await admin.call(
            "bind", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body=binding
        )
    except ApiError as exc:
        if exc.status != 409:
            raise
    async with AsyncExitStack() as stack:
        for node in cluster.nodes.values():
            command = await asyncio.to_thread(_prepare, cluster, node)
            await stack.enter_async_context(running(node.folder, "kube-proxy", command))
        yield


def _prepare(cluster: RealCluster, node: RealNode) -> list[str]:
    """With iptables' older form: the newer one wants modules that a test machine may lack."""
    programs = node.folder / "programs"
    programs.mkdir(exist_ok=True)
    for family in ("iptables", "ip6tables"):
        for suffix in ("", "-restore", "-save"):
            link = programs / f"{family}{suffix}"
            link.unlink(missing_ok=True)
            found = program(f"{family}-legacy{suffix}")
            assert found is not None
            link.symlink_to(found)
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.server.folder / "proxy.conf")},
        "mode": "iptables",
        "clusterCIDR": f"{POD_PREFIX}0.0/16",
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "iptables": {"minSyncPeriod": "100ms"},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpCloseWaitTimeout": "0s",
            "tcpEstablishedTimeout": "0s",
        },
    }
    file = node.folder / "kube-proxy.json"
    file.write_text(json.dumps(config))
    subprocess.run([*node.inside, "sh", "-c", "sysctl -qw net.ipv4.conf.all.route_localnet=1"], check=False)
    conntrack = program("conntrack")
    assert conntrack is not None
    path = f"{programs}:{conntrack.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return [*node.inside, "env", f"PATH={path}", str(program("kube-proxy")), f"--config={file}"]
