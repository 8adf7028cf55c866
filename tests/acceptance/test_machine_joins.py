"""A second machine, from the printed token to an answer through the gateway: a network, an engine and a node role of its own."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import aiodocker
import pytest

from moorage.engines.docker.daemon import ensure_own_engine, remove_engine_data, stop_engine
from moorage.kit.settings import Settings
from tests.acceptance.conftest import run_stack
from tests.acceptance.joined_machine import JoinedMachine
from tests.acceptance.stack import Person, Stack, until
from tests.folders import folder_for_a_database
from tests.tls_front import TlsFront, tls_front
from tests.tunnel.places import Place
from tests.tunnel.programs import have_tunnel_programs

HERE, THERE = "10.91.7.1", "10.91.7.2"
NAME = "rack-7"
pytestmark = pytest.mark.long


@pytest.fixture
def tls() -> Iterator[TlsFront]:
    with tls_front(HERE) as front:
        yield front


@pytest.fixture
def joining_stack(docker_host: str, tls: TlsFront) -> Iterator[Stack]:
    settings = {
        "MOORAGE_PUBLIC_URL": tls.url,
        "MOORAGE_TUNNEL_ENDPOINT": f"{HERE}:51900",
        "MOORAGE_TUNNEL_PORT": "51900",
    }
    for stack in run_stack(docker_host, "25000-25999", **settings):
        tls.leads_to = stack.api_port
        yield stack


@pytest.fixture
def machine(tls: TlsFront) -> Iterator[JoinedMachine]:
    have_tunnel_programs()
    place, folder = Place("joined"), folder_for_a_database()
    cable = place.name[-6:]
    for command in (
        f"ip link add h{cable} type veth peer name m{cable} netns {place.name}",
        f"ip address add {HERE}/24 dev h{cable}",
        f"ip link set h{cable} up",
    ):
        subprocess.run(command.split(), check=True)
    place.sh(f"ip address add {THERE}/24 dev m{cable}")
    place.sh(f"ip link set m{cable} up")
    place.sh(f"ip route add default via {HERE}")
    engine = Settings(home=folder / "engine")
    made = JoinedMachine(place, folder, place.do(ensure_own_engine(engine, print)), tls.certificate)
    try:
        yield made
    finally:
        made.end_all()
        place.do(stop_engine(engine))
        place.do(remove_engine_data(engine))
        made.end_what_is_left()
        subprocess.run(["ip", "link", "delete", f"h{cable}"], check=False)
        place.end()
        shutil.rmtree(folder, ignore_errors=True)


async def _copy_image(source: str, target: str) -> None:
    async with aiodocker.Docker(source) as here, aiodocker.Docker(target) as there:
        async with here.images.export_image("local/chat:latest") as content:
            data = await content.read()
        async for _ in there.images.import_image(data, stream=True):
            pass


def state_of(stack: Stack, machine_id: str) -> str:
    with stack.operator() as operator:
        return str(operator.get(f"/machines/{machine_id}").json()["state"])


def engines_of(person: Person, container_id: str) -> list[str]:
    replicas = person.api.get(f"/containers/{container_id}/replicas").json()["items"]
    return sorted(one["node"] for one in replicas if one["state"] == "routed")


def test_a_second_machine_serves(machine: JoinedMachine, joining_stack: Stack, tls: TlsFront) -> None:
    stack = joining_stack
    asyncio.run(_copy_image(stack.docker_host, machine.docker_host))
    with stack.operator() as operator:
        added: dict[str, Any] = operator.post("/operator/machines", json={"name": NAME}).json()
        until(lambda: _hub_is_open(stack), "the hub's end of the tunnel is open")
        machine.join(tls.url, added["token"])
        until(lambda: state_of(stack, added["id"]) == "active", "the machine is active")
        until(lambda: NAME in _nodes(stack), "its engine described it")

    person = stack.sign_up("ann@example.com")
    key = person.key()
    chat = person.deploy(
        "chat",
        resources={"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 2, "max_replicas": 2},
    )
    chat.until_state("RUNNING")
    until(lambda: len(engines_of(person, chat.id)) == 2, "both serve")
    assert NAME in engines_of(person, chat.id)
    chat.until_answered(key)
    assert all(chat.ask(key).status_code == 200 for _ in range(20))

    # Its node role ends: what runs there serves on.
    machine.end("serve")
    assert all(chat.ask(key).status_code == 200 for _ in range(20))
    machine.serve()

    with stack.operator() as operator:
        drained = operator.post(f"/machines/{added['id']}/drain")
        assert drained.status_code in (200, 202), drained.text
    until(lambda: NAME not in engines_of(person, chat.id) and len(engines_of(person, chat.id)) == 2, "moved")
    assert all(chat.ask(key).status_code == 200 for _ in range(20))
    chat.delete()
    with stack.operator() as operator:
        until(
            lambda: operator.delete(f"/machines/{added['id']}").status_code in (200, 204), "it can be removed"
        )
    until(lambda: NAME not in _nodes(stack), "nobody knows it any more")


def _nodes(stack: Stack) -> list[str]:
    with stack.operator() as operator:
        return [one["name"] for one in operator.get("/operator/nodes").json()["items"]]


def _hub_is_open(stack: Stack) -> bool:
    return "moorwg" in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
