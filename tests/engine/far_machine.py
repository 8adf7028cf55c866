"""A machine that joined, at the other end of a tunnel: a network and a Docker engine of its own, and its node role there.

This process is the hub: whatever it asks of the machine, and of the replicas there, goes through WireGuard and both firewalls.
"""

import asyncio
import contextlib
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from moorage.engines.docker.daemon import ensure_own_engine, remove_engine_data, stop_engine
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.machine import Machine
from moorage.kit.clock import system_clock
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from moorage.node.main import credential_digest, serving
from moorage.node.settings import NodeSettings
from moorage.outbound.pulls.proxy import PullProxy
from moorage.tunnel.addresses import DOOR_PORT, NODE_PORT
from tests.engine.conftest import TEST_PORTS, DockerWorld
from tests.engine.registry import Registry
from tests.engine.remote_world import NoRows
from tests.engine_fixtures import build_busybox, remove_installation
from tests.folders import folder_for_a_database
from tests.ports import free_port
from tests.tunnel.pair import HUB_ADDRESS, MACHINE_ADDRESS, tunnel_between
from tests.tunnel.places import Place, answers
from tests.tunnel.programs import have_tunnel_programs

NEAR_END, FAR_END = "10.91.8.1", "10.91.8.2"


@dataclass(frozen=True)
class FarMachine:
    place: Place
    docker_host: str
    image: str

    @asynccontextmanager
    async def serving(self, installation_id: InstallationId, port: int) -> AsyncIterator[Machine]:
        """Its node role, in its network."""
        credential = secrets.token_urlsafe(32)
        settings = NodeSettings(
            installation_id=installation_id,
            credential_sha256=credential_digest(credential),
            address=MACHINE_ADDRESS,
            port=port,
            pulls_address=HUB_ADDRESS,
            pulls_port=DOOR_PORT,
            docker_host=self.docker_host,
            replica_ports=TEST_PORTS,
        )
        role = serving(settings)
        await asyncio.to_thread(self.place.do, role.__aenter__())
        try:
            yield Machine("far", "operator", MACHINE_ADDRESS, port, credential)
        finally:
            await asyncio.to_thread(self.place.do, role.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def far_machine() -> Iterator[FarMachine]:
    have_tunnel_programs()
    folder, engine_home = folder_for_a_database(), folder_for_a_database()
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder)
        undo.callback(shutil.rmtree, engine_home, ignore_errors=True)
        place = Place("far")
        undo.callback(place.end)
        undo.callback(subprocess.run, _cable(place), check=False)
        endpoint = NEAR_END, free_port()
        undo.enter_context(tunnel_between(asyncio.run, place.do, folder, endpoint, TEST_PORTS))
        engine = Settings(home=engine_home)
        docker_host = place.do(ensure_own_engine(engine, print))
        undo.callback(lambda: place.do(remove_engine_data(engine)))
        undo.callback(lambda: place.do(stop_engine(engine)))
        yield FarMachine(place, docker_host, asyncio.run(build_busybox(docker_host)))


@pytest.fixture
async def far_world(
    far_machine: FarMachine, registry: Registry, pulls: PullProxy
) -> AsyncIterator[DockerWorld]:
    """The machine's engine, with the tunnel and the node role between it and whoever asks."""
    await pulls.open_door(HUB_ADDRESS, DOOR_PORT)
    assert await asyncio.to_thread(far_machine.place.do, answers(HUB_ADDRESS, DOOR_PORT, within_s=20))
    world = DockerWorld(far_machine.docker_host, far_machine.image, f"{registry.host}/absent:1", pulls)
    world.replicas_at = MACHINE_ADDRESS
    beside = world.engine, world.other_engine
    async with AsyncExitStack() as stack:
        for installation_id in (world.installation_id, world.other_installation_id):
            stack.push_async_callback(_remove, far_machine, installation_id)
        for engine in beside:
            stack.push_async_callback(engine.close)
        # Another installation's node role has a tunnel of its own; here it listens on a port that this one lets through.
        for name, installation_id, port in (
            ("engine", world.installation_id, NODE_PORT),
            ("other_engine", world.other_installation_id, free_port()),
        ):
            machine = await stack.enter_async_context(far_machine.serving(installation_id, port))
            engine = RemoteEngine(machine, NoRows(), system_clock, pulls)
            stack.push_async_callback(engine.close)
            setattr(world, name, engine)
        await world.engine.prepare()
        yield world


async def _remove(machine: FarMachine, installation_id: InstallationId) -> None:
    removing = remove_installation(machine.docker_host, installation_id)
    await asyncio.to_thread(machine.place.do, removing)  # its rules are in that network


def _cable(place: Place) -> list[str]:
    """Lays it, and answers how it is taken away."""
    cable = place.name[-6:]
    for command in (
        f"ip link add h{cable} type veth peer name m{cable} netns {place.name}",
        f"ip address add {NEAR_END}/24 dev h{cable}",
        f"ip link set h{cable} up",
    ):
        subprocess.run(command.split(), check=True)
    place.sh(f"ip address add {FAR_END}/24 dev m{cable}")
    place.sh(f"ip link set m{cable} up")
    place.sh(f"ip route add default via {NEAR_END}")
    return ["ip", "link", "delete", f"h{cable}"]
