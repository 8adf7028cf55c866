"""The containers reconciler, as it is deployed, with a real cluster as its engine."""

import time

import aiohttp
import pytest

from moorage.catalog.repository import fill_empty_catalogue, list_nodes
from moorage.containers import service
from moorage.containers.door_authority_repository import add as add_authority
from moorage.engines.doors import Authority, door_name
from moorage.engines.engines import Engines
from moorage.entrypoints.engine import CLUSTER
from moorage.gateway.repository import register_gateway
from moorage.kit.database import Database
from tests.database.reconciler_support import GATEWAY, World, driven, eventually, new_project
from tests.kubernetes.cluster_world import RealWorld

pytestmark = pytest.mark.cluster

SERVES = "/bin/sh -c 'trap \"exit 0\" TERM; httpd -f -p $PORT -h /www & wait'"
IMAGE = "local/busybox:test"


@pytest.fixture
async def rows(database: Database) -> World:
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        await register_gateway(session, GATEWAY)
        project = await new_project(session, "Acme")
    return World(database, project, machine=None)  # type: ignore[arg-type]


async def gateways_trust(rows: World, authority: Authority) -> None:
    async with rows.database.transaction() as session:
        await add_authority(session, 1, authority.made_at, authority.certificate, b"unread")


async def test_from_a_row_to_an_answer_and_back(real: RealWorld, rows: World) -> None:
    async def nodes_are_known() -> bool:
        async with rows.database.reading() as session:
            return len(await list_nodes(session)) == 2

    async def is_(state: str, container_id: str, reason: str | None = None) -> bool:
        row = await rows.container(container_id)
        return row.state == state and (reason is None or row.reason == reason)

    async def nothing_is_left() -> bool:
        return not await real.engine.list_replicas()

    engines = Engines({CLUSTER: real.engine}, clusters={CLUSTER}, doors=real.doors)
    await gateways_trust(rows, real.doors.signs)
    async with driven(rows, engines), aiohttp.ClientSession() as http:
        await eventually(nodes_are_known, "the nodes are known")
        began = time.monotonic()
        container_id = await rows.create(IMAGE, replicas=2, health_path="/index.html", start_command=SERVES)
        await eventually(lambda: is_("RUNNING", container_id), "it serves")
        print(f"RUNNING after {time.monotonic() - began:.1f} s")

        async def both_serve() -> bool:
            return len(await rows.replicas(container_id, "routed")) == 2

        await eventually(both_serve, "both of it serve")
        routed = await rows.replicas(container_id, "routed")
        assert {row.node for row in routed} == {"node-1", "node-2"}
        for row in routed:
            url, trust = f"https://{row.host}:{row.host_port}/index.html", await real.doors.trust()
            async with http.get(url, ssl=trust, server_hostname=door_name(row.id)) as answer:
                assert await answer.text() == "hello from busybox\n"
        await rows.ask(service.delete_container, container_id)
        await eventually(nothing_is_left, "nothing is left")


BROKEN = (
    ("serve-the-model --fast", "start_command_not_found", "/index.html"),
    ("/etc/not-executable", "start_command_not_found", "/index.html"),
    ("/bin/sh -c 'exit 3'", "exited", "/index.html"),
    ("/bin/sh -c 'exec dd if=/dev/zero of=/dev/null bs=3000M count=1'", "out_of_memory", "/index.html"),
    ("/bin/sh -c 'echo no space left on device; exit 1'", "disk_full", "/index.html"),
    ("/bin/sh -c 'httpd -f -p 127.0.0.1:$PORT -h /www'", "listens_on_loopback_only", "/index.html"),
    ("/bin/sh -c 'httpd -f -p 9999 -h /www'", "listens_on_other_port", "/index.html"),
    ("/bin/sh -c 'sleep 600'", "port_not_listening", "/index.html"),
    (SERVES, "health_check_status", "/absent"),
    ("/bin/sh -c 'nc -ll -p $PORT -e sleep 600'", "health_check_timeout", "/index.html"),
)


async def test_what_is_broken_says_why_as_on_docker(real: RealWorld, rows: World) -> None:
    async def nodes_are_known() -> bool:
        async with rows.database.reading() as session:
            return len(await list_nodes(session)) == 2

    engines = Engines({CLUSTER: real.engine}, clusters={CLUSTER}, doors=real.doors)
    await gateways_trust(rows, real.doors.signs)
    async with driven(rows, engines):
        await eventually(nodes_are_known, "the nodes are known")
        wanted = {
            await rows.create(IMAGE, start_command=command, health_path=path, health_timeout_s=15): reason
            for command, reason, path in BROKEN
        }

        async def all_have_failed() -> bool:
            return all([(await rows.container(one)).state == "FAILED" for one in wanted])

        await eventually(all_have_failed, "all of them failed", 120)
        found = {one: (await rows.container(one)).reason for one in wanted}
    assert found == wanted
