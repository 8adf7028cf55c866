"""Moorage installed in a real cluster from the chart's own objects: two of everything, and a Postgres outside of it."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asyncpg
import yaml

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.names import LABEL_INSTALLATION
from moorage.entrypoints.bootstrap import make_keys
from moorage.entrypoints.kubernetes.commands import objects_for
from moorage.kit.clock import system_clock
from moorage.kit.home import prepare_home
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from tests.folders import folder_for_a_database
from tests.kubernetes.cluster_dns import cluster_dns
from tests.kubernetes.cluster_proxy import kube_proxies
from tests.kubernetes.cluster_registry import BUILD, ClusterRegistry, encoded, trust_registry
from tests.kubernetes.real_api_server import program
from tests.kubernetes.real_cluster import ADDRESS, POD_PREFIX, RealCluster
from tests.ports import free_port

NAMESPACE = "moorage-own"
"""Other tests of the same cluster have the usual one."""
HOUR_S = 120
"""So that several are paid while a test looks."""
FIRST_NODE = "10.77.0.11"
CHART = Path(__file__).parents[2] / "deploy/helm/moorage"
_LABEL = "app.kubernetes.io/component"
_DEADLINE_S = 240.0


@dataclass
class Installed:
    cluster: RealCluster
    admin: ApiServer
    dsn: str
    """As Pods reach it; it works from here too."""
    operator_key: str
    values: dict[str, Any]
    by_helm: bool = field(default=False)

    def kubectl(self, *arguments: str, given: str | None = None, within_s: float = 120) -> str:
        command = [
            str(program("kubectl")),
            "--kubeconfig",
            str(self.cluster.server.kubeconfig("admin")),
            *arguments,
        ]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=within_s
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    async def pods(self, component: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        found = await self.admin.call("list", "GET", path, query={"labelSelector": f"{_LABEL}={component}"})
        return list(found["items"])

    async def ready(self, component: str) -> list[dict[str, Any]]:
        return [pod for pod in await self.pods(component) if is_ready(pod)]

    async def until(
        self, condition: Callable[[], Awaitable[bool]], what: str, within_s: float = _DEADLINE_S
    ) -> float:
        """How long it took."""
        began_s = system_clock.monotonic()
        while not await condition():
            if system_clock.monotonic() - began_s > within_s:
                raise AssertionError(
                    f"not within {within_s:.0f} s: {what}\n{await asyncio.to_thread(self.words)}"
                )
            await asyncio.sleep(0.2)
        return system_clock.monotonic() - began_s

    async def until_there(self, component: str, count: int = 2) -> float:
        async def there() -> bool:
            pods = await self.pods(component)
            return len(pods) == count and all(map(is_ready, pods))

        return await self.until(there, f"{count} of {component} are ready")

    async def kill(self, namespace: str, name: str) -> None:
        """At once, without a word."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        await self.admin.call("kill", "DELETE", path, query={"gracePeriodSeconds": "0"}, body={})

    async def rows(self, query: str, *arguments: Any) -> list[Any]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return list(await connection.fetch(query, *arguments))
        finally:
            await connection.close()

    async def leader(self) -> str:
        """The Pod that leads the containers' reconciler."""
        ((holder,),) = await self.rows("SELECT holder FROM leases WHERE name = 'containers'")
        return str(holder).partition(":")[0]

    def words(self) -> str:
        """What the cluster and Moorage say, for whoever reads a failure."""
        said = [self.kubectl("get", "pods", "-A", "-o", "wide"), self.kubectl("get", "events", "-A")[-3000:]]
        for component in ("bootstrap", "api", "controller", "gateway"):
            logs = ("logs", "-n", NAMESPACE, "-l", f"{_LABEL}={component}", "--tail=25", "--prefix")
            try:
                said.append(self.kubectl(*logs))
            except AssertionError as exc:
                said.append(str(exc))
        return "\n".join(said)


@asynccontextmanager
async def installed(cluster: RealCluster) -> AsyncIterator[Installed]:
    async with AsyncExitStack() as stack:
        admin = ApiServer(account_from(str(cluster.server.kubeconfig("admin"))), system_clock)
        stack.push_async_callback(admin.close)
        await stack.enter_async_context(kube_proxies(cluster, admin))
        await stack.enter_async_context(cluster_dns(admin, ADDRESS))
        dsn = await stack.enter_async_context(_postgres())
        cluster.server.authority.issue("registry", "registry", hosts=(ADDRESS,))
        keys = cluster.server.folder
        registry = await stack.enter_async_context(
            ClusterRegistry(keys / "registry.crt", keys / "registry.key")
        )
        await asyncio.to_thread(registry.take_archive, "moorage", BUILD / f"moorage-{version('moorage')}.tar")
        await registry.take_example()
        trust_registry(cluster, registry.host)
        values = _values(registry.host)
        folder = Path(tempfile.mkdtemp(prefix="mi-"))
        stack.callback(shutil.rmtree, folder)
        secret_keys, operator_key = make_keys(folder / "keys")
        found = Installed(cluster, admin, dsn, operator_key.read_text().strip(), values)
        secrets = {
            "moorage-database": {"dsn": dsn},
            "moorage-keys": {
                "secret-keys": secret_keys.read_text(),
                "operator-key": operator_key.read_text(),
            },
            "authorities": {"ca.crt": (keys / "ca.crt").read_text()},
        }
        await asyncio.to_thread(_apply_secrets, found, secrets)
        await install(found, folder)
        stack.push_async_callback(_uninstall, found)
        yield found


async def install(found: Installed, folder: Path) -> None:
    """As Helm does it: the job first, and when it is done the rest."""
    bodies = await asyncio.to_thread(_objects, found, folder)
    job = [body for body in bodies if body["kind"] == "Job"]
    rest = [body for body in bodies if body["kind"] != "Job"]
    for some in (job, rest):
        text = yaml.safe_dump_all(some)
        await asyncio.to_thread(found.kubectl, "apply", "-f", "-", given=text)
        if some is job:
            await found.until(lambda: _is_done(found), "the bootstrap job is done")
    for component in ("api", "controller", "gateway"):
        took_s = await found.until_there(component)
        print(f"{component}: 2 ready after {took_s:.1f} s")


def _objects(found: Installed, folder: Path) -> list[dict[str, Any]]:
    """Rendered by Helm where it is, else printed by us: `tests/unit/test_chart.py` holds the two together."""
    helm = program("helm")
    if helm is None:
        print("HELM: not there; the objects are those of moor kubernetes manifests")
        return objects_for(found.values, NAMESPACE, "moorage")
    file = folder / "values.yaml"
    file.write_text(json.dumps(found.values))
    command = [str(helm), "template", "moorage", str(CHART), "--namespace", NAMESPACE, "--values", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found.by_helm = True
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def _values(registry: str) -> dict[str, Any]:
    return {
        "image": {"repository": f"{registry}/moorage", "tag": version("moorage")},
        "publicUrl": f"http://{FIRST_NODE}:30080",
        "gatewayUrl": f"http://{FIRST_NODE}:30081",
        "localRegistry": registry,
        "trust": {"existingSecret": "authorities"},
        "gateway": {"serviceType": "NodePort", "apiNodePort": 30080, "endpointNodePort": 30081},
        # This cluster enforces no NetworkPolicies, and says so.
        "isolation": "waived",
        "podNetworks": [f"{POD_PREFIX}0.0/16"],
        "resources": {"requestCpu": "50m"},
        "settings": {"allowed_registries": json.dumps([registry]), "billing_hour_s": str(HOUR_S)},
    }


def _apply_secrets(found: Installed, secrets: dict[str, dict[str, str]]) -> None:
    bodies: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    ]
    bodies += [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key: encoded(text) for key, text in entries.items()},
        }
        for name, entries in secrets.items()
    ]
    found.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(bodies))


async def _is_done(found: Installed) -> bool:
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/moorage-bootstrap"
    return bool((await found.admin.call("job", "GET", path)).get("status", {}).get("succeeded"))


async def _uninstall(found: Installed) -> None:
    """All of it, tenants' namespaces too: other tests make the cluster-wide objects anew."""
    bodies = objects_for(found.values, NAMESPACE, "moorage")
    (installation_id,) = {
        variable["value"]
        for body in bodies
        if body["kind"] == "Job"
        for variable in body["spec"]["template"]["spec"]["containers"][0]["env"]
        if variable["name"] == "MOORAGE_INSTALLATION_ID"
    }
    wide = [body for body in bodies if "namespace" not in body["metadata"]]
    text = yaml.safe_dump_all(wide)
    # First whoever would make new ones.
    await asyncio.to_thread(found.kubectl, "delete", "deployments", "-n", NAMESPACE, "--all", "--wait=false")
    await asyncio.to_thread(found.kubectl, "delete", "-f", "-", "--ignore-not-found", given=text)
    selector = {"labelSelector": f"{LABEL_INSTALLATION}={installation_id}"}
    namespaces = await found.admin.call("list", "GET", "/api/v1/namespaces", query=selector)
    for name in (NAMESPACE, *(one["metadata"]["name"] for one in namespaces["items"])):
        await asyncio.to_thread(found.kubectl, "delete", "namespace", name, "--wait=false")
        await found.until(lambda of=name: _is_empty(found, of), f"{name} is empty")


async def _is_empty(found: Installed, namespace: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/pods"
    await found.admin.call("end", "DELETE", path, query={"gracePeriodSeconds": "0"}, body={})
    return not (await found.admin.call("list", "GET", path))["items"]


@asynccontextmanager
async def _postgres() -> AsyncIterator[str]:
    home, port = folder_for_a_database(), free_port()
    settings = Settings(home=home)
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=(f"listen_addresses={ADDRESS}", f"port={port}", "fsync=off"))
    try:
        await _start_at_an_address(server, home, port)
        password = server.dsn.partition("moorage:")[2].partition("@")[0]
        yield f"postgresql://moorage:{password}@{ADDRESS}:{port}/moorage?sslmode=disable"
    finally:
        await server.stop()
        shutil.rmtree(home)


async def _start_at_an_address(server: EmbeddedPostgres, home: Path, port: int) -> None:
    await EmbeddedPostgres(Settings(home=home)).start()
    await server.stop()
    with (home / "postgres/data/pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.0.0.0/8 scram-sha-256\n")
    os.environ.pop("PGPORT", None)
    server._options = (*server._options,)
    binaries = await asyncio.to_thread(server.install)
    server._spawn(binaries)
    deadline_s = system_clock.monotonic() + 60
    while True:
        try:
            _, writer = await asyncio.open_connection(ADDRESS, port)
        except OSError:
            assert system_clock.monotonic() < deadline_s, "Postgres does not listen"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


def is_ready(pod: dict[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True"
