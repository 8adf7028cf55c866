"""A small policy controller for the real cluster, whose plain bridge enforces nothing: it reads NetworkPolicies and Pods from the API
server and makes them rules of iptables in each node. A Pod whose policy it has not seen reaches nothing.

It knows what Moorage writes: one policy for all Pods of a namespace, with `ipBlock`s.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from moorage.engines.kubernetes.connection import ApiServer
from tests.kubernetes.real_cluster import RealCluster, RealNode, run

_CHAIN = "MOORAGE-TEST"
_LOOK_EVERY_S = 0.2


@asynccontextmanager
async def enforced(cluster: RealCluster, admin: ApiServer) -> AsyncIterator[None]:
    for node in cluster.nodes.values():
        # Pods of one node are on one bridge: what they send each other passes the same rules.
        bridged = "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables"
        run("nsenter", "-t", str(node.init), "-n", "sh", "-c", bridged)
        _restore(node, [f":{_CHAIN} - [0:0]", f"-A {_CHAIN} -s {node.pods} -j DROP"])
        for parent in ("INPUT", "FORWARD"):
            _iptables(node, "-I", parent, "-j", _CHAIN)
    looking = asyncio.create_task(_follow(cluster, admin))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        for node in cluster.nodes.values():
            for parent in ("INPUT", "FORWARD"):
                _iptables(node, "-D", parent, "-j", _CHAIN)
            _iptables(node, "-F", _CHAIN)
            _iptables(node, "-X", _CHAIN)
    if not looking.cancelled():
        looking.result()


async def _follow(cluster: RealCluster, admin: ApiServer) -> None:
    before: dict[str, list[str]] = {}
    while True:
        policies = (await admin.call("policies", "GET", "/apis/networking.k8s.io/v1/networkpolicies")).get(
            "items"
        ) or []
        pods = (await admin.call("pods", "GET", "/api/v1/pods")).get("items") or []
        by_namespace = {one["metadata"]["namespace"]: one["spec"] for one in policies}
        for node in cluster.nodes.values():
            rules = [
                f":{_CHAIN} - [0:0]",
                f"-A {_CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
            ]
            for pod in pods:
                spec = by_namespace.get(pod["metadata"]["namespace"])
                if spec is not None and pod["status"].get("podIP"):
                    rules += _rules_of(pod["status"]["podIP"], spec)
            rules.append(f"-A {_CHAIN} -s {node.pods} -j DROP")
            if before.get(node.name) != rules:
                await asyncio.to_thread(_restore, node, rules)
                before[node.name] = rules
        await asyncio.sleep(_LOOK_EVERY_S)


def _rules_of(address: str, spec: dict[str, Any]) -> Iterator[str]:
    for block in (one["ipBlock"] for rule in spec.get("egress") or () for one in rule["to"]):
        for network in block.get("except") or ():
            yield f"-A {_CHAIN} -s {address} -d {network} -j DROP"
        yield f"-A {_CHAIN} -s {address} -d {block['cidr']} -j RETURN"
    for peer in (one for rule in spec.get("ingress") or () for one in rule["from"]):
        if "ipBlock" in peer:
            yield f"-A {_CHAIN} -s {peer['ipBlock']['cidr']} -d {address} -j RETURN"
    yield f"-A {_CHAIN} -d {address} -j DROP"


def _restore(node: RealNode, rules: list[str]) -> None:
    text = "\n".join(["*filter", *rules, "COMMIT", ""])
    command = ["nsenter", "-t", str(node.init), "-n", "iptables-restore", "--noflush"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def _iptables(node: RealNode, *arguments: str) -> None:
    command = ["nsenter", "-t", str(node.init), "-n", "iptables", *arguments]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
