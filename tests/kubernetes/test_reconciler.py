"""The containers reconciler, as it is deployed, with a stand-in cluster as its engine: real rows, a gateway that obeys at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.catalog.repository import fill_empty_catalogue, list_nodes
from moorage.containers import service
from moorage.containers.door_authorities import DoorAuthorities
from moorage.containers.door_authority_repository import add as add_authority
from moorage.containers.models import ReplicaRow
from moorage.engines.engines import Engines
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.simulated_machine import SimulatedImage
from moorage.entrypoints.engine import CLUSTER
from moorage.gateway.liveness import Health
from moorage.gateway.repository import (
    DOORS,
    changed_buckets,
    fingerprint,
    read_named,
    read_table,
    register_gateway,
)
from moorage.gateway.table import GatewayTable
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId, InstallationId
from moorage.reconcile.driver import Driver
from tests.database.reconciler_support import GATEWAY, KEYRING, World, driven, eventually, new_project
from tests.kubernetes.store import Key
from tests.kubernetes.world import ClusterWorld, cluster_world

IMAGES = {
    "chat": SimulatedImage(exposed_ports=(8000,)),
    "crash": SimulatedImage(exits_after_s=0.0, exit_code=3),
    "hungry": SimulatedImage(exits_after_s=0.0, out_of_memory=True),
    "strict": SimulatedImage(commands=frozenset({"serve"})),
}
LONG_AGO = timedelta(seconds=60)


class Installation:
    def __init__(self, world: World, cluster: ClusterWorld) -> None:
        self.world, self.cluster, self.nodes = world, cluster, cluster.nodes

    def engines(self, engine: KubernetesEngine | None = None) -> Engines:
        return Engines({CLUSTER: engine or self.cluster.engine}, clusters={CLUSTER}, doors=self.cluster.doors)

    @asynccontextmanager
    async def controller(self, engine: KubernetesEngine | None = None) -> AsyncIterator[Driver]:
        async with driven(self.world, self.engines(engine)) as driver:
            await eventually(self._nodes_are_known, "the nodes are known", 30)
            yield driver

    async def _nodes_are_known(self) -> bool:
        async with self.world.database.reading() as session:
            return len(await list_nodes(session)) == 2

    async def routed(self, container_id: str, count: int) -> list[ReplicaRow]:
        found: list[ReplicaRow] = []

        async def serve() -> bool:
            found[:] = await self.world.replicas(container_id, "routed")
            return len(found) == count

        await eventually(serve, f"{count} of {container_id} serve", 30)
        return found

    async def state(self, container_id: str, state: str, reason: str | None = None) -> str:
        async def is_so() -> bool:
            row = await self.world.container(container_id)
            return row.state == state and (reason is None or row.reason == reason)

        await eventually(is_so, f"{container_id} is {state} {reason}", 30)
        return (await self.world.container(container_id)).message or ""

    def pods(self, container_id: str) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.cluster.server.store.all("pods")
            if (pod["metadata"].get("labels") or {}).get("moorage.io/container") == container_id
        ]

    def key(self, row: ReplicaRow) -> Key:
        return next(
            key
            for key, pod in self.cluster.server.store.objects.items()
            if key[0] == "pods" and pod["metadata"].get("labels", {}).get("moorage.io/replica") == row.id
        )

    def out_of_reach(self, row: ReplicaRow) -> None:
        """Health checks of the gateway fail."""
        self.world.failing[row.id] = Health("timeout", None, 0)


@pytest.fixture
async def installation(database: Database, certificate: Path, tmp_path: Path) -> AsyncIterator[Installation]:
    doors = DoorAuthorities(database, KEYRING, InstallationId("ins_of_a_test"), system_clock)
    await doors.ensure()
    async with cluster_world(
        certificate, tmp_path, images=IMAGES, nodes=("node-1", "node-2"), doors=doors, really_listen=True
    ) as cluster:
        async with database.transaction() as session:
            await fill_empty_catalogue(session)
            await register_gateway(session, GATEWAY)
            project = await new_project(session, "Acme")
        yield Installation(World(database, project, machine=None), cluster)  # type: ignore[arg-type]


async def test_a_container_serves_on_both_nodes_and_goes_without_a_trace(installation: Installation) -> None:
    async with installation.controller():
        container_id = await installation.world.create(replicas=2)
        routed = await installation.routed(container_id, 2)
        await installation.state(container_id, "RUNNING")
        pods = {
            pod["metadata"]["labels"]["moorage.io/replica"]: pod for pod in installation.pods(container_id)
        }
        for row in routed:
            assert row.engine == CLUSTER
            assert (row.node, row.host, row.host_port, row.has_door) == (
                pods[row.id]["spec"]["nodeName"],
                pods[row.id]["status"]["podIP"],
                8443,
                True,
            )
        assert {row.node for row in routed} == {"node-1", "node-2"}
        # Every gateway is told of the doors, and whom to believe about them, whichever way it reads.
        signs = (await installation.cluster.doors.authority()).certificate
        async with installation.world.database.transaction() as session:
            whole = await read_table(session)
            named = await read_named(session, GatewayTable(), {container_id})
            before = await fingerprint(session)
            await add_authority(session, 2, datetime.now(UTC), signs, b"unread")
            changed = changed_buckets(before, await fingerprint(session))
            joined = await read_table(session, whole, changed)
        assert whole.door_authorities == named.door_authorities == signs
        assert whole.routes[ContainerId(container_id)] == named.routes[ContainerId(container_id)]
        assert all(server.has_door for server in whole.routes[ContainerId(container_id)].servers)
        assert (changed, joined.door_authorities) == ({DOORS}, signs * 2)
        await installation.world.ask(service.delete_container, container_id)

        async def is_gone() -> bool:
            rows = await installation.world.replicas(container_id)
            return not installation.pods(container_id) and all(row.state == "removed" for row in rows)

        await eventually(is_gone, "nothing of it is left", 30)


@pytest.mark.parametrize(
    ("image", "more", "reason", "words"),
    [
        ("local/crash:latest", {}, "exited", "code 3"),
        ("local/hungry:latest", {}, "out_of_memory", "memory"),
        (
            "local/strict:latest",
            {"start_command": "serve-the-model --fast"},
            "start_command_not_found",
            "serve-the-model",
        ),
        ("local/absent:latest", {}, "image_not_found", "absent"),
    ],
)
async def test_why_it_fails_is_what_docker_says(
    installation: Installation, image: str, more: dict[str, Any], reason: str, words: str
) -> None:
    async with installation.controller():
        container_id = await installation.world.create(image, **more)
        message = await installation.state(container_id, "FAILED", reason)
    assert words in message


async def test_what_no_node_has_room_for_waits_and_says_so(installation: Installation) -> None:
    async with installation.controller():
        installation.nodes.occupy("64Gi")
        container_id = await installation.world.create()
        message = await installation.state(container_id, "PENDING", "no_capacity")
        assert "No machine has room for it yet" in message
        assert len(installation.pods(container_id)) == 1, "the cluster has it, and waits"
        installation.nodes.vacate()
        await installation.routed(container_id, 1)


@pytest.mark.long
async def test_what_a_lost_node_had_is_replaced_once_no_gateway_reaches_it(
    installation: Installation,
) -> None:
    async with installation.controller() as driver:
        container_id = await installation.world.create(replicas=2)
        routed = await installation.routed(container_id, 2)
        lost = routed[0]
        installation.nodes.lose(lost.node, since=datetime.now(UTC) - LONG_AGO)
        installation.world.fewest_enabled[container_id] = 2
        driver.ask(container_id)
        await installation.state(container_id, "RUNNING")
        assert [row.id for row in await installation.world.replicas(container_id, "routed")] == [
            row.id for row in routed
        ], "what gateways reach lives on"
        installation.out_of_reach(lost)

        async def is_replaced() -> bool:
            driver.ask(container_id)
            rows = await installation.world.replicas(container_id, "routed")
            return len(rows) == 2 and lost.id not in {row.id for row in rows}

        await eventually(is_replaced, "another serves in its place", 60)
        rows = await installation.world.replicas(container_id)
        gone = next(row for row in rows if row.id == lost.id)
        assert gone.reason == "node_lost"
        assert {row.node for row in rows if row.state == "routed"} == {"node-1", "node-2"} - {lost.node}


@pytest.mark.long
async def test_what_the_cluster_takes_away_is_replaced_and_is_nobodys_fault(
    installation: Installation,
) -> None:
    async with installation.controller():
        container_id = await installation.world.create()
        (first,) = await installation.routed(container_id, 1)
        installation.nodes.evict(installation.key(first), "The node was low on resource: memory.")

        async def is_replaced() -> bool:
            rows = await installation.world.replicas(container_id, "routed")
            return bool(rows) and rows[0].id != first.id

        await eventually(is_replaced, "another serves after the eviction", 30)
        (second,) = await installation.routed(container_id, 1)
        installation.cluster.server.store.delete(installation.key(second))  # by hand

        async def is_replaced_again() -> bool:
            rows = await installation.world.replicas(container_id, "routed")
            return bool(rows) and rows[0].id != second.id

        await eventually(is_replaced_again, "another serves after the removal", 30)
        ended = {row.id: row for row in await installation.world.replicas(container_id)}
        assert ended[first.id].reason == ended[second.id].reason == "node_lost"
        assert "memory" in (ended[first.id].message or "")


@pytest.mark.long
async def test_a_cordoned_node_is_emptied_without_a_gap(installation: Installation) -> None:
    async with installation.controller() as driver:
        container_id = await installation.world.create()
        (first,) = await installation.routed(container_id, 1)
        installation.world.fewest_enabled[container_id] = 1
        installation.nodes.cordon(first.node)

        async def has_moved() -> bool:
            driver.reconciler._sweep.hurry(CLUSTER)  # type: ignore[attr-defined]
            rows = await installation.world.replicas(container_id, "routed")
            return bool(rows) and rows[0].node != first.node and len(installation.pods(container_id)) == 1

        await eventually(has_moved, "it serves on the other node, and there alone", 60)
        assert installation.world.fewest_enabled[container_id] >= 1


@pytest.mark.long
async def test_a_server_that_fails_for_a_while_ends_nothing(installation: Installation) -> None:
    async with installation.controller() as driver:
        container_id = await installation.world.create()
        (row,) = await installation.routed(container_id, 1)
        faults = installation.cluster.server.faults
        faults.refuse += [(method, "/pods", 500) for method in ("GET", "PATCH", "DELETE") for _ in range(20)]
        installation.cluster.server.end_watches()

        async def has_asked() -> bool:
            driver.ask(container_id)
            return not [one for one in faults.refuse if one[0] == "GET"]

        await eventually(has_asked, "it was asked, and refused, many times", 60)
        faults.refuse.clear()
        driver.ask(container_id)
        await installation.state(container_id, "RUNNING")
        assert [one.id for one in await installation.routed(container_id, 1)] == [row.id]
        assert len(installation.pods(container_id)) == 1


async def test_the_next_controller_goes_on_with_what_waits_for_its_image(installation: Installation) -> None:
    """The first one's tickets end with it, while the Pod has no node yet."""
    async with installation.controller():
        installation.nodes.occupy("64Gi")
        container_id = await installation.world.create()
        await installation.state(container_id, "PENDING", "no_capacity")
    await installation.cluster.engine.close()
    (pod,) = installation.pods(container_id)
    engine = installation.cluster.new_engine(installation.cluster.installation_id)
    try:
        await installation.world.end_lease()
        async with installation.controller(engine):
            installation.nodes.vacate()
            (row,) = await installation.routed(container_id, 1)
            assert row.engine_id is not None
            assert row.engine_id.endswith(pod["metadata"]["uid"]), "the same Pod"
    finally:
        await engine.close()
