"""Moorage in a real cluster, installed from the chart's own objects: two APIs, two controllers, two gateways."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
import pytest_asyncio

from moorage.engines.kubernetes.names import LABEL_CONTAINER, LABEL_REPLICA, LABEL_SLOT
from moorage.entrypoints.kubernetes.check import look_at_cluster
from moorage.kit.settings import Settings
from tests.kubernetes.installed import HOUR_S, NAMESPACE, Installed, install, installed
from tests.kubernetes.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800), pytest.mark.asyncio(loop_scope="session")]

EXAMPLE = Path(__file__).parents[2] / "examples/chat/container.toml"
_TAKEOVER_S = 20.0
_REQUESTS_PER_S = 20


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def moorage(cluster: RealCluster) -> AsyncIterator[Installed]:
    async with installed(cluster) as running:
        yield running


async def test_two_of_everything_get_ready(moorage: Installed) -> None:
    for component in ("api", "controller", "gateway"):
        pods = await moorage.ready(component)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2, f"{component} is not on two nodes"


async def test_the_walk_of_the_readme(moorage: Installed, tmp_path: Path) -> None:
    person = Person(moorage, tmp_path)
    assert "operator" in await person.moor("whoami")
    said = await person.moor("deploy", "-f", str(EXAMPLE))
    assert "chat is RUNNING." in said, said
    key = (await person.moor("keys", "create")).strip()
    chat = json.loads(await person.moor("describe", "chat", "--json"))
    client = openai.AsyncOpenAI(base_url=f"{chat['endpoint_url']}/api/v1", api_key=key, max_retries=0)
    messages = [{"role": "user", "content": "Ahoy"}]

    async def is_known() -> bool:
        """A new key is at every gateway within a second."""
        try:
            await client.chat.completions.create(model="chat", messages=messages)  # type: ignore[call-overload]
        except openai.AuthenticationError:
            return False
        return True

    await moorage.until(is_known, "the key is known", 20)
    plain = await client.chat.completions.create(model="chat", messages=messages)  # type: ignore[call-overload]
    assert "Ahoy" in plain.choices[0].message.content
    stream = await client.chat.completions.create(model="chat", messages=messages, stream=True)  # type: ignore[call-overload]
    words = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(words) == plain.choices[0].message.content
    await client.close()
    assert "Harbour pilot" in await person.moor("chat", "chat", "Hello there")

    async def is_logged() -> bool:
        return "POST /api/v1/chat/completions 200" in await person.moor("logs", "chat")

    await moorage.until(is_logged, "its requests are in its log", 30)
    assert "STOPPED" in await person.moor("stop", "chat")
    await person.moor("delete", "chat", "--yes")


async def test_the_check_says_what_this_cluster_lacks(moorage: Installed) -> None:
    """It has a DNS of the test's own, and nothing that enforces policies; asked by an administrator, and from inside."""
    ask = [
        "exec",
        "-n",
        NAMESPACE,
        "deploy/moorage-controller",
        "--",
        "sh",
        "-c",
        "moor kubernetes check --json; true",
    ]
    inside = _by_subject(json.loads(await asyncio.to_thread(moorage.kubectl, *ask)))
    assert inside["version"] == inside["rights"] == inside["nodes"] == inside["storage"] == {"ok"}
    assert inside["admission policies"] == inside["network policies"] == {"note"}
    where = str(moorage.cluster.server.kubeconfig("admin"))
    found = {one.about: one for one in await look_at_cluster(where, NAMESPACE, Settings())}
    assert found["admission policies"].level == found["rights"].level == "ok"
    assert found["DNS"].stops
    # And of an account without any rights.
    other = await look_at_cluster(where, "elsewhere", Settings())
    rights = next(one for one in other if one.about == "rights")
    assert rights.stops
    assert "create namespaces" in rights.says


async def test_nobody_writes_into_the_image(moorage: Installed) -> None:
    for component in ("api", "controller", "gateway"):
        ask = [
            "exec",
            "-n",
            NAMESPACE,
            f"deploy/moorage-{component}",
            "--",
            "sh",
            "-c",
            "id -u; touch /x /usr/x /opt/x 2>&1; true",
        ]
        said = (await asyncio.to_thread(moorage.kubectl, *ask)).splitlines()
        assert said[0] == "65532"
        assert [line.rpartition(": ")[2] for line in said[1:]] == ["Read-only file system"] * 3, said


async def test_any_pod_may_go(moorage: Installed, tmp_path: Path) -> None:
    two, key = await Person(moorage, tmp_path).deploy("two", replicas=2)
    await moorage.until(lambda: _serves(moorage, two["id"], 2), "both replicas serve")
    async with gateway_loads(moorage, two["id"], key) as loads:
        for component in ("api", "controller", "gateway"):
            for pod in await moorage.ready(component):
                name = pod["metadata"]["name"]
                leads = component == "controller" and await moorage.leader() == name
                await loads.leave_out(name)
                killed_s = time.monotonic()
                await moorage.kill(NAMESPACE, name)
                if leads:
                    await moorage.until(lambda gone=name: _led_by_another(moorage, gone), "another leads", 60)
                    took_s = time.monotonic() - killed_s
                    print(f"takeover after {took_s:.1f} s")
                    assert took_s <= _TAKEOVER_S
                took_s = await moorage.until_there(component)
                print(f"{component} {name} was killed: 2 ready again after {took_s:.1f} s")
                await loads.add_new()
        for pod in await _replica_pods(moorage, two["id"]):
            name = pod["metadata"]["name"]
            await moorage.kill(pod["metadata"]["namespace"], name)
            took_s = await moorage.until(
                lambda gone=name: _replaced(moorage, two["id"], gone), f"{name} is replaced"
            )
            print(f"replica {name} was killed: replaced after {took_s:.1f} s")
    await _nothing_twice(moorage, two["id"])
    loads.judge(least=1000)
    await Person(moorage, tmp_path).moor("delete", "two", "--yes")


async def test_a_node_may_go(moorage: Installed, tmp_path: Path) -> None:
    """The second: the first is where people come in. It comes back, and nothing is there twice."""
    pair, key = await Person(moorage, tmp_path).deploy("pair", replicas=2)
    await moorage.until(lambda: _serves(moorage, pair["id"], 2), "both replicas serve")
    node = moorage.cluster.nodes["node-2"]
    async with gateway_loads(moorage, pair["id"], key) as loads:
        for pod in await moorage.pods("gateway"):
            if pod["spec"]["nodeName"] == node.name:
                await loads.leave_out(pod["metadata"]["name"])
        leader = await moorage.leader()
        on_node = {
            pod["metadata"]["name"]
            for pod in await moorage.pods("controller")
            if pod["spec"]["nodeName"] == node.name
        }
        node.cut_off()
        lost_s = time.monotonic()
        try:
            if leader in on_node:
                await moorage.until(lambda: _led_by_another(moorage, leader), "another leads", 60)
                print(f"node lost: takeover after {time.monotonic() - lost_s:.1f} s")
                assert time.monotonic() - lost_s <= _TAKEOVER_S
            await moorage.until(
                lambda: _serves_without(moorage, pair["id"], node.name), "its replicas are replaced"
            )
            print(f"node lost: its replicas are replaced after {time.monotonic() - lost_s:.1f} s")
        finally:
            node.join_again()
        for component in ("api", "controller", "gateway"):
            await moorage.until_there(component)
        print(f"node back: two of everything again, {time.monotonic() - lost_s:.1f} s after it was lost")
    await _nothing_twice(moorage, pair["id"])
    loads.judge(least=300)
    await Person(moorage, tmp_path).moor("delete", "pair", "--yes")


async def test_an_upgrade_and_the_way_back(moorage: Installed, tmp_path: Path) -> None:
    """Every Pod of ours is replaced, twice, while clients come in by the Service; nothing of a tenant's is."""
    person = Person(moorage, tmp_path)
    chat, key = await person.deploy("upgraded")
    load = Load(f"{chat['endpoint_url']}/whoami", key)
    await moorage.until(load.answers, "the endpoint answers", 30)
    before = await moorage.rows("SELECT id, state FROM replicas WHERE container_id = $1", chat["id"])
    load.begin()
    try:
        for level in ("warning", "info"):
            moorage.values["settings"]["log_level"] = level
            began_s = time.monotonic()
            await asyncio.to_thread(moorage.kubectl, "delete", "job", "-n", NAMESPACE, "moorage-bootstrap")
            await install(moorage, tmp_path)
            for component in ("api", "controller", "gateway"):
                rollout = (
                    "rollout",
                    "status",
                    "-n",
                    NAMESPACE,
                    f"deployment/moorage-{component}",
                    "--timeout=400s",
                )
                await asyncio.to_thread(moorage.kubectl, *rollout, within_s=420)
                await moorage.until_there(component)
            print(f"log_level {level}: all is new after {time.monotonic() - began_s:.0f} s")
    finally:
        await load.end()
    print(f"upgrade and back: {dict(load.outcomes)}, slowest {max(load.took_s):.2f} s")
    after = await moorage.rows("SELECT id, state FROM replicas WHERE container_id = $1", chat["id"])
    assert after == before
    assert set(load.outcomes) == {"200"}
    await person.moor("delete", "upgraded", "--yes")


def _by_subject(found: list[dict[str, str]]) -> dict[str, set[str]]:
    return {
        one["about"]: {other["level"] for other in found if other["about"] == one["about"]} for one in found
    }


@dataclass
class GatewayLoads:
    """An open load at each gateway, by its own address: at one that lives no request may fail."""

    moorage: Installed
    container_id: str
    key: str
    by_name: "dict[str, Load]" = field(default_factory=dict)

    async def add_new(self) -> None:
        for pod in await self.moorage.ready("gateway"):
            name = pod["metadata"]["name"]
            if name not in self.by_name:
                load = Load(f"http://{pod['status']['podIP']}:8081/c/{self.container_id}/whoami", self.key)
                await self.moorage.until(load.answers, f"{name} knows the container and the key", 60)
                load.begin()
                self.by_name[name] = load

    async def leave_out(self, name: str) -> None:
        """It is about to be killed."""
        if name in self.by_name:
            await self.by_name[name].end()

    def judge(self, least: int) -> None:
        sent = sum(load.outcomes.total() for load in self.by_name.values())
        assert sent >= least
        assert sum(load.outcomes["200"] for load in self.by_name.values()) == sent


@asynccontextmanager
async def gateway_loads(moorage: Installed, container_id: str, key: str) -> AsyncIterator[GatewayLoads]:
    loads = GatewayLoads(moorage, container_id, key)
    await loads.add_new()
    try:
        yield loads
    finally:
        for name, load in loads.by_name.items():
            await load.end()
            print(f"through {name}: {dict(load.outcomes)}, slowest {max(load.took_s, default=0.0):.2f} s")


async def _nothing_twice(moorage: Installed, container_id: str) -> None:
    async def pods_are_rows() -> bool:
        living = await moorage.rows(
            "SELECT id FROM replicas WHERE container_id = $1 AND state IN ('starting', 'ready', 'routed')",
            container_id,
        )
        pods = await _replica_pods(moorage, container_id)
        by_slot = Counter(pod["metadata"]["labels"][LABEL_SLOT] for pod in pods)
        return {pod["metadata"]["labels"][LABEL_REPLICA] for pod in pods} == {
            row["id"] for row in living
        } and by_slot == {
            "0": 1,
            "1": 1,
        }

    await moorage.until(pods_are_rows, "as many Pods as rows, one for each slot", 60)
    # Bought a little ahead, each begins where the one before it ends: what was bought is counted from its end.
    overlapping = await moorage.rows(
        "SELECT a.id FROM hours a JOIN hours b ON a.container_id = b.container_id AND a.slot = b.slot AND a.id < b.id "
        "WHERE a.state = 'paid' AND b.state = 'paid' AND tstzrange(a.expires_at - $1::interval, a.expires_at) && "
        "tstzrange(b.expires_at - $1::interval, b.expires_at)",
        timedelta(seconds=HOUR_S),
    )
    assert overlapping == []
    unbalanced = await moorage.rows(
        "SELECT transaction_id FROM ledger_entries GROUP BY transaction_id HAVING sum(amount_microusd) <> 0"
    )
    assert unbalanced == []
    (paid,) = await moorage.rows(
        "SELECT count(*) FROM hours WHERE state = 'paid' AND container_id = $1", container_id
    )
    print(f"{paid[0]} hours were paid, none twice")

    async def gone_are_forgotten() -> bool:
        return len(await moorage.rows("SELECT id FROM gateways")) == 2

    await moorage.until(gone_are_forgotten, "gateways whose Pods are gone are forgotten", 180)


async def _replica_pods(moorage: Installed, container_id: str) -> list[dict[str, Any]]:
    selector = {"labelSelector": f"{LABEL_CONTAINER}={container_id}"}
    return list((await moorage.admin.call("list", "GET", "/api/v1/pods", query=selector))["items"])


async def _serves(moorage: Installed, container_id: str, count: int) -> bool:
    rows = await moorage.rows(
        "SELECT id FROM replicas WHERE container_id = $1 AND state = 'routed'", container_id
    )
    return len(rows) == count


async def _serves_without(moorage: Installed, container_id: str, node: str) -> bool:
    rows = await moorage.rows(
        "SELECT node FROM replicas WHERE container_id = $1 AND state = 'routed'", container_id
    )
    return len(rows) == 2 and all(row["node"] != node for row in rows)


async def _replaced(moorage: Installed, container_id: str, name: str) -> bool:
    rows = await moorage.rows(
        "SELECT id FROM replicas WHERE container_id = $1 AND state = 'routed'", container_id
    )
    return len(rows) == 2 and name not in {row["id"].replace("_", "-") for row in rows}


async def _led_by_another(moorage: Installed, name: str) -> bool:
    rows = await moorage.rows(
        "SELECT holder FROM leases WHERE name = 'containers' AND expires_at > clock_timestamp()"
    )
    return bool(rows) and not rows[0]["holder"].startswith(name)


@dataclass
class Person:
    """Somebody with the command line, and the operator's key."""

    moorage: Installed
    folder: Path

    async def deploy(self, name: str, replicas: int = 1) -> tuple[dict[str, Any], str]:
        """The container, and a key for it."""
        file = self.folder / f"{name}.toml"
        file.write_text(EXAMPLE.read_text().replace('name = "chat"', f'name = "{name}"'))
        counts = () if replicas == 1 else (f"--min={replicas}", f"--max={replicas}")
        await self.moor("deploy", "-f", str(file), *counts)
        key = (await self.moor("keys", "create")).strip()
        return json.loads(await self.moor("describe", name, "--json")), key

    async def moor(self, *arguments: str) -> str:
        return await asyncio.to_thread(self._moor, *arguments)

    def _moor(self, *arguments: str) -> str:
        environment = {
            **os.environ,
            "MOORAGE_URL": self.moorage.values["publicUrl"],
            "MOORAGE_TOKEN": self.moorage.operator_key,
            "MOORAGE_CLI_CONFIG": str(self.folder / "cli.toml"),
        }
        command = [sys.executable, "-m", "moorage.entrypoints.moor", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        if done.returncode != 0:
            raise AssertionError(
                f"moor {' '.join(arguments)}: {done.stdout}{done.stderr}\n{self.moorage.words()}"
            )
        return done.stdout


@dataclass
class Load:
    """So many requests a second at one gateway, whether the answers come or not."""

    url: str
    key: str
    outcomes: Counter[str] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: asyncio.Task[None] | None = None

    async def answers(self) -> bool:
        async with self._session() as session:
            try:
                async with session.get(self.url) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

    def begin(self) -> None:
        self._sending = asyncio.get_running_loop().create_task(self._send())

    async def end(self) -> None:
        self._over.set()
        if self._sending is not None:
            await self._sending
            self._sending = None

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        headers = {"Authorization": f"Bearer {self.key}"}
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout) as session:
            yield session

    async def _send(self) -> None:
        began_s, sent = time.monotonic(), 0
        async with self._session() as session, asyncio.TaskGroup() as group:
            while not self._over.is_set():
                due = int((time.monotonic() - began_s) * _REQUESTS_PER_S)
                for _ in range(due - sent):
                    group.create_task(self._one(session))
                sent = max(sent, due)
                await asyncio.sleep(0.02)

    async def _one(self, session: aiohttp.ClientSession) -> None:
        began_s = time.monotonic()
        try:
            async with session.get(self.url) as answer:
                text = await answer.text()
                self.outcomes[
                    str(answer.status) if answer.status == 200 else f"{answer.status} {text[:80]}"
                ] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            self.outcomes[repr(exc)[:80]] += 1
        self.took_s.append(time.monotonic() - began_s)
