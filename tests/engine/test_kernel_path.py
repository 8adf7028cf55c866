"""Requests for a replica go the kernel's way, and by Docker's proxy where somebody took that way away."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from moorage.engines.docker import iptables, kernel_path
from moorage.engines.docker.network import BridgeNetwork
from tests.engine.conftest import TEST_PORTS, DockerWorld
from tests.engine.contract import spec_of
from tests.engine.isolation_support import until_open

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the firewall")


async def test_past_the_proxy_and_by_it(guarded_world: DockerWorld) -> None:
    world, network = guarded_world, BridgeNetwork(guarded_world.installation_id)
    spec = await spec_of(world, "serves")
    await world.engine.start(spec)
    await until_open(world, "127.0.0.1", spec.host_port)

    # Whatever flushes the machine's rules, an engine that starts among them: the proxy is left.
    (rule,) = [
        line
        for line in await iptables.present_rules("iptables", "nat")
        if line.startswith("-A DOCKER ") and f"--dport {spec.host_port} " in line
    ]
    await iptables.restore("iptables", [f"-D{rule.removeprefix('-A')}"], "nat")
    assert await _answer(spec.host_port)
    await iptables.restore("iptables", [rule], "nat")

    _kill_proxy(spec.host_port)
    assert await _answer(spec.host_port)
    await kernel_path.withdraw(network.bridge, network.suffix)
    with pytest.raises(ConnectionRefusedError):
        await _answer(spec.host_port)
    await world.engine.prepare()
    assert await _answer(spec.host_port)


async def test_rules_are_set_once_and_taken_back(guarded_world: DockerWorld) -> None:
    network = BridgeNetwork(guarded_world.installation_id)
    before = await iptables.present_rules("iptables", "nat")
    assert all(
        chain.is_in(before) for chain in kernel_path.chains(network.bridge, network.suffix, TEST_PORTS)
    )
    await guarded_world.engine.prepare()
    assert await iptables.present_rules("iptables", "nat") == before
    await guarded_world.engine.dismantle()
    left = await iptables.present_rules("iptables", "nat")
    assert not [line for line in left if network.suffix in line]


async def test_without_the_kernels_consent_the_proxies_are_left(
    guarded_world: DockerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = BridgeNetwork(guarded_world.installation_id)
    monkeypatch.setattr(kernel_path, "_SETTINGS", tmp_path)
    await guarded_world.engine.prepare()
    (weakness,) = guarded_world.engine.network_isolation.weaknesses
    assert f"net.ipv4.conf.{network.bridge}.route_localnet" in weakness
    assert await _rules_with(f"-{network.suffix}") == []
    spec = await spec_of(guarded_world, "serves")
    await guarded_world.engine.start(spec)
    await until_open(guarded_world, "127.0.0.1", spec.host_port)
    assert await _answer(spec.host_port)


async def test_a_rule_that_docker_forgot_leads_nobody_astray(guarded_world: DockerWorld) -> None:
    spec = await spec_of(guarded_world, "serves")
    await guarded_world.engine.start(spec)
    forgotten = (
        f"DOCKER -d 127.0.0.1/32 -p tcp -m tcp --dport {spec.host_port} -j DNAT --to-destination 192.0.2.1:80"
    )
    await iptables.restore("iptables", [f"-I {forgotten}"], "nat")
    try:
        await guarded_world.engine.prepare()
        (weakness,) = guarded_world.engine.network_isolation.weaknesses
        assert f"left a rule for port {spec.host_port} behind" in weakness
        await until_open(guarded_world, "127.0.0.1", spec.host_port)
        assert await _answer(spec.host_port)
    finally:
        await iptables.restore("iptables", [f"-D {forgotten}"], "nat")
    await guarded_world.engine.prepare()
    assert guarded_world.engine.network_isolation.weaknesses == ()


async def _rules_with(text: str) -> list[str]:
    """Not those of other engines on this machine."""
    return [line for line in await iptables.present_rules("iptables", "nat") if text in line]


def _kill_proxy(port: int) -> None:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if arguments[0].endswith("docker-proxy") and str(port) in arguments:
            os.kill(int(folder.name), signal.SIGKILL)
            return
    raise AssertionError(f"no proxy has port {port}")


async def _answer(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer
