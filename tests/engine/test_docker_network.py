"""From inside a container: no host, no neighbour, no private address. And the rules are noticed when lost."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from moorage.engines.base import ReplicaSpec
from moorage.engines.docker import firewall
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.ids import new_installation_id
from tests.engine.conftest import DockerWorld
from tests.engine.contract import logs_of, spec_of


@pytest.fixture
async def host_service_port() -> AsyncIterator[int]:
    """A service that listens on every address of the machine, as a careless operator's might."""
    application = web.Application()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="host")

    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


@pytest.mark.long
async def test_unreachable_from_a_container(docker_world: DockerWorld, host_service_port: int) -> None:
    assert docker_world.engine.network_isolation.reason is None
    assert docker_world.engine.network_isolation.isolated
    neighbour = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(neighbour)
    neighbour_address, gateway = await _addresses(docker_world, started.engine_id)
    await _until_open(docker_world, neighbour_address, 8000)

    targets = {
        "neighbour": f"{neighbour_address}:8000",
        "neighbour's published port": f"{gateway}:{neighbour.host_port}",
        "host by bridge address": f"{gateway}:{host_service_port}",
        "host by its own address": f"{_own_address()}:{host_service_port}",
        "metadata service": "169.254.169.254:80",
    }
    reached = await _reached(docker_world, tuple(targets.values()))
    assert reached == set(), {name: target for name, target in targets.items() if target in reached}


@pytest.mark.long
async def test_rules_are_what_makes_it_so(docker_world: DockerWorld, host_service_port: int) -> None:
    network = BridgeNetwork(docker_world.installation_id)
    started = await docker_world.engine.start(await spec_of(docker_world, "serves"))
    _, gateway = await _addresses(docker_world, started.engine_id)
    target = f"{gateway}:{host_service_port}"
    await firewall.withdraw(network.bridge, network.suffix)
    assert await _reached(docker_world, (target,)) == {target}
    await docker_world.engine.prepare()
    assert await _reached(docker_world, (target,)) == set()


async def test_rules_are_set_once_and_in_front(docker_world: DockerWorld) -> None:
    network = BridgeNetwork(docker_world.installation_id)
    wanted = firewall.chains(network.bridge, network.suffix)
    before = _rules()
    assert all(firewall.is_enforced(chain, before) for chain in wanted)
    await docker_world.engine.prepare()
    # Other engines of this machine have theirs.
    assert [line for line in _rules() if network.suffix in line] == [
        line for line in before if network.suffix in line
    ]

    accept = ["-i", network.bridge, "-j", "ACCEPT"]
    _iptables("-I", "INPUT", "1", *accept)
    try:
        assert not firewall.is_enforced(wanted[0], _rules())
        await docker_world.engine.prepare()
        assert all(firewall.is_enforced(chain, _rules()) for chain in wanted)
    finally:
        _iptables("-D", "INPUT", *accept)


@pytest.mark.quiet
async def test_an_engine_that_starts_beside_it_is_waited_for(docker_world: DockerWorld) -> None:
    """It takes Docker's chains away for a moment, and nothing may fail because somebody looked just then."""
    _iptables("-D", "FORWARD", "-j", "DOCKER-USER")
    looking = asyncio.create_task(docker_world.engine.prepare())
    await asyncio.sleep(0.3)
    _iptables("-I", "FORWARD", "-j", "DOCKER-USER")
    await looking
    assert docker_world.engine.network_isolation.isolated


async def test_dismantle_leaves_nothing(docker_world: DockerWorld) -> None:
    network = BridgeNetwork(docker_world.installation_id)
    for _ in range(2):
        await docker_world.engine.dismantle()
    assert not [line for line in _rules() if network.suffix in line]


def test_names() -> None:
    network = BridgeNetwork(new_installation_id())
    assert len(network.bridge) <= 15
    assert all(len(chain.name) <= 28 for chain in firewall.chains(network.bridge, network.suffix))


async def _reached(world: DockerWorld, targets: tuple[str, ...]) -> set[str]:
    """Which of them answer an HTTP request or at least accept a connection, seen from a new container."""
    tries = "; ".join(
        f"(nc -w 2 {target.replace(':', ' ')} </dev/null && echo {target}) &" for target in targets
    )
    script = tries.replace("&;", "&") + " wait"
    spec: ReplicaSpec = replace(await spec_of(world, "prints"), command=("/bin/sh", "-c", script))
    started = await world.engine.start(spec)
    lines = {chunk.data.decode() for chunk in await logs_of(world, started.engine_id)}
    await world.engine.remove(started.engine_id)
    return lines & set(targets)


async def _addresses(world: DockerWorld, engine_id: str) -> tuple[str, str]:
    connection = DockerConnection(world.docker_host)
    inspected = await connection.docker.containers.container(engine_id).show()
    await connection.close()
    (attached,) = inspected["NetworkSettings"]["Networks"].values()
    return attached["IPAddress"], attached["Gateway"]


async def _until_open(world: DockerWorld, address: str, port: int) -> None:
    async def is_open() -> bool:
        try:
            _, writer = await asyncio.open_connection(address, port)
        except OSError:
            return False
        writer.close()
        return True

    await world.until(is_open)


def _own_address() -> str:
    """The address that this machine would use towards the world; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])


def _rules() -> list[str]:
    return _iptables("-S").splitlines()


def _iptables(*arguments: str) -> str:
    command = ["iptables", "-w", "10", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
