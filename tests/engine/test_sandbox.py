"""A machine that is lent: containers run in gVisor's sandbox under our profile and in our network, or not at all."""

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from moorage.engines.base import ImageRequest, ObservedReplica, ReplicaPhase, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import create_body, name_of
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.docker.network import BridgeNetwork
from moorage.engines.sandboxes import SANDBOX_RUNTIME
from moorage.entrypoints.example_image import EXAMPLE_IMAGE, ensure_example_image
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError, SetupError
from moorage.kit.ids import (
    ContainerId,
    InstallationId,
    OrganizationId,
    ProjectId,
    new_installation_id,
    new_replica_id,
)
from moorage.machines.on_machine.sandbox import set_up_sandbox, take_sandbox_away, try_sandbox
from tests.engine.isolation_support import HAS_DEBIAN, NEEDS_DEBIAN
from tests.engine.sandboxed_engine import SandboxedEngine, owners_network, sandboxed_engine
from tests.engine_fixtures import BUSYBOX_IMAGE, build_busybox, remove_installation
from tests.ports import free_port

pytestmark = pytest.mark.long

OWNERS_LAN = (
    *(f"192.168.231.{last}" for last in range(81, 95)),
    *(f"10.231.89.{last}" for last in range(2, 6)),
    *("172.16.231.89", "172.31.231.89", "100.64.231.89", "100.127.231.89", "169.254.231.89"),
)
OWNERS_LAN_6 = ("fd00:231:89::2", "fd00:231:89::3")
TUNNEL = ("198.19.0.1", "198.19.231.89")
"""Addresses of its network, where somebody stands in for the other end; the real one is in `make prove-community`."""
LAN_PORTS = (22, 80, 445)
_AT_ONCE = 20
"""Processes of a tenant that knock: a sandbox takes its time for each."""
METADATA = ("169.254.169.254", "169.254.170.2")


@pytest.fixture(scope="module")
def lent() -> Iterator[SandboxedEngine]:
    """With the sandbox as joining sets it up."""
    with sandboxed_engine() as engine:
        asyncio.run(
            set_up_sandbox(
                engine.host, with_gpus=True, file=engine.settings_file, pid_files=(engine.pid_file,)
            )
        )
        asyncio.run(build_busybox(engine.host))
        yield engine


async def ran(*command: str) -> str:
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    return done.stdout


@dataclass
class World:
    lent: SandboxedEngine
    installation_id: InstallationId
    engine: DockerEngine
    image: str

    def spec(self, command: str, memory_bytes: int = 128 * 2**20) -> ReplicaSpec:
        return ReplicaSpec(
            replica_id=new_replica_id(),
            container_id=ContainerId("ctr_lent"),
            project_id=ProjectId("prj_lent"),
            organization_id=OrganizationId("org_lent"),
            slot=0,
            generation=1,
            image=self.image,
            command=("/bin/sh", "-c", command),
            environment={},
            port=8000,
            host_port=free_port(),
            vcpu_millis=1000,
            memory_bytes=memory_bytes,
            disk_bytes=2**30,
        )

    async def said(self, spec: ReplicaSpec) -> tuple[str, ObservedReplica]:
        """What it printed, and how it ended."""
        started = await self.engine.start(spec)
        output = [chunk.data async for chunks in self.engine.logs(started.engine_id, 0) for chunk in chunks]
        ended = await self.engine.inspect(spec.replica_id)
        assert ended is not None
        return b"\n".join(output).decode(), ended


@pytest.fixture
async def world(lent: SandboxedEngine) -> AsyncIterator[World]:
    installation_id = new_installation_id()
    engine = DockerEngine(lent.host, installation_id, system_clock, runtime=SANDBOX_RUNTIME, mail_closed=True)
    await engine.prepare()
    assert engine.network_isolation.isolated, engine.network_isolation.reason
    found = await engine.ensure_image(ImageRequest(BUSYBOX_IMAGE, local=True), lambda _: None)
    yield World(lent, installation_id, engine, found.engine_ref)
    await engine.close()
    await remove_installation(lent.host, installation_id)


async def test_setting_it_up_touches_nothing_else(lent: SandboxedEngine) -> None:
    written = json.loads(lent.settings_file.read_text())
    assert written["debug"] is False
    assert list(written["runtimes"]) == [SANDBOX_RUNTIME]
    assert "--nvproxy" not in written["runtimes"][SANDBOX_RUNTIME]["runtimeArgs"], (
        "this one has no such thing"
    )
    before = lent.settings_file.read_text()
    how = {"file": lent.settings_file, "pid_files": (lent.pid_file,)}
    await set_up_sandbox(lent.host, with_gpus=False, **how)
    assert lent.settings_file.read_text() == before, "safe to repeat"
    take_sandbox_away(**how)
    assert json.loads(lent.settings_file.read_text()) == {"debug": False}
    await set_up_sandbox(lent.host, with_gpus=False, **how)
    left = await ran("docker", "-H", lent.host, "images", "--format", "{{.Repository}}")
    assert "moorage-trial" not in left


async def test_a_trial_finds_out_that_there_is_no_sandbox(lent: SandboxedEngine) -> None:
    with pytest.raises(SetupError, match="saw this machine's own kernel"):
        await try_sandbox(lent.host, "runc")
    with pytest.raises(SetupError, match="There is no runsc"):
        await set_up_sandbox(lent.host, with_gpus=False, program="no-such-sandbox")


async def test_it_runs_in_the_sandbox_under_the_same_profile(world: World) -> None:
    said, ended = await world.said(
        world.spec(
            "cat /proc/version; while read -r l; do echo $l; done < /proc/self/status; echo > /proc/sys/kernel/x"
        )
    )
    assert "Linux version 4.4.0" in said
    assert "CapEff: 0000000000000000" in said.replace("\t", " ")
    assert ended.phase is ReplicaPhase.EXITED


async def test_it_serves_at_its_port_and_ends_when_told(world: World) -> None:
    spec = world.spec('trap "exit 0" TERM; httpd -f -p $PORT -h /www & wait')
    started = await world.engine.start(spec)
    answer = b""
    for _ in range(100):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", spec.host_port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
        except OSError:
            pass
        if b"hello from busybox" in answer:
            break
        await asyncio.sleep(0.1)
    assert b"hello from busybox" in answer
    await world.engine.stop(started.engine_id, 10)
    ended = await world.engine.inspect(spec.replica_id)
    assert ended is not None
    assert ended.phase is ReplicaPhase.EXITED


@pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN)
async def test_a_program_begins_threads(world: World, tmp_path: Path) -> None:
    """One with a C library that tries `clone3` first, as nearly every server's does."""
    assert await ensure_example_image(world.lent.host, tmp_path, print) == EXAMPLE_IMAGE
    found = await world.engine.ensure_image(ImageRequest(EXAMPLE_IMAGE, local=True), lambda _: None)
    script = "import threading; t = [threading.Thread(target=print, args=['began']) for _ in range(3)]; [one.start() for one in t]"
    spec = replace(
        world.spec("", 256 * 2**20), image=found.engine_ref, command=("/usr/bin/python3", "-u", "-c", script)
    )
    said, ended = await world.said(spec)
    # A thread's word and the end of its line are two writes.
    assert (said.count("began"), ended.exit_code) == (3, 0), said


async def test_its_memory_is_bounded(world: World) -> None:
    _, ended = await world.said(
        world.spec("dd if=/dev/zero of=/dev/null bs=300M count=1; echo survived", 64 * 2**20)
    )
    assert ended.exit_code != 0


async def test_what_is_there_outside_of_it_is_not_started(world: World) -> None:
    """Somebody created it with the engine's own runtime."""
    spec = world.spec("true")
    body = create_body(
        spec,
        installation_id=world.installation_id,
        network=BridgeNetwork(world.installation_id).name,
        dns=("1.1.1.1",),
    )
    connection = DockerConnection(world.lent.host)
    await connection.docker.containers.create(body, name=name_of(spec.replica_id))
    await connection.close()
    with pytest.raises(EngineError, match="not in the sandbox") as caught:
        await world.engine.start(spec)
    assert caught.value.code == "not_isolated"
    found = await world.engine.inspect(spec.replica_id)
    assert found is not None
    assert found.phase is ReplicaPhase.CREATED


def _script(targets: Sequence[tuple[str, int]]) -> str:
    """Somebody who is there answers or refuses; both are told."""
    tries = [
        f"(said=$(nc -w 3 {address} {port} </dev/null 2>&1) && echo reached {address}:{port} "
        f"|| case $said in *refused*) echo refused {address}:{port};; esac) &"
        for address, port in targets
    ]
    some = [tries[first : first + _AT_ONCE] for first in range(0, len(tries), _AT_ONCE)]
    return "\n".join([*(line for part in some for line in (*part, "wait")), "echo tried"])


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 3):
            return True
    except OSError:
        return False


async def test_a_tenant_reaches_nothing_of_the_owners(world: World) -> None:
    """Their network, the tunnel, this machine by each of its addresses, and what clouds have at such addresses."""
    own = [socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) for _ in range(3)]
    ports = [listening.getsockname()[1] for listening in own]
    network = BridgeNetwork(world.installation_id).name
    how = "{{(index .IPAM.Config 0).Gateway}}"
    gateway = (
        await ran("docker", "-H", world.lent.host, "network", "inspect", network, "--format", how)
    ).strip()
    addresses = json.loads(await ran("ip", "-j", "-4", "address"))
    hosts = [one["local"] for link in addresses for one in link["addr_info"] if link["ifname"] != "lo"][:4]
    owners = (*OWNERS_LAN, *TUNNEL, *OWNERS_LAN_6)
    with owners_network(owners, LAN_PORTS):
        hosts = [gateway, "10.231.88.1", "fd00:231:88::1", *hosts]
        targets = [
            *((address, port) for address in owners for port in LAN_PORTS),
            *((address, port) for address in dict.fromkeys(hosts) for port in ports),
            *((address, 80) for address in METADATA),
        ]
        deadline_s = system_clock.monotonic() + 20
        there = [(address, port) for address in owners for port in LAN_PORTS]
        while not all(_answers(*one) for one in there):
            assert system_clock.monotonic() < deadline_s, "the owner's network answers this machine itself"
            await asyncio.sleep(0.1)
        docker = ("docker", "-H", world.lent.host)
        await ran(*docker, "network", "create", "lent-unguarded")
        shell = (BUSYBOX_IMAGE, "/bin/sh", "-c", _script(there[:3]))
        unguarded = await ran(
            *(*docker, "run", "--rm", "--runtime", SANDBOX_RUNTIME, "--network", "lent-unguarded", *shell)
        )
        await ran(*docker, "network", "rm", "lent-unguarded")
        assert unguarded.count("reached") == 3, f"the canary can knock: {unguarded}"
        said, _ = await world.said(world.spec(f"cat /proc/net/if_inet6\n{_script(targets)}"))
    for listening in own:
        listening.close()
    *first, last = said.splitlines()
    assert last == "tried"
    assert [line for line in first if not line.endswith(" lo")] == [], (
        "it has no IPv6 address, and reached nothing"
    )
    tried = {address for address, _ in targets}
    print(f"\n0 of {len(tried)} addresses reached ({len(targets)} with their ports)")
    assert len(tried) >= 30


async def test_nobody_sends_mail(world: World) -> None:
    rules = await ran("iptables", "-S")
    suffix = BridgeNetwork(world.installation_id).suffix
    for port in (25, 465, 587):
        assert f"-A MOOR-OUT-{suffix} -p tcp -m tcp --dport {port} -j DROP" in rules
    await world.engine.prepare()
    again = await ran("iptables", "-S")
    ours = [[line for line in text.splitlines() if suffix in line] for text in (rules, again)]
    assert ours[0] == ours[1], "found as it should be, it is left alone"
