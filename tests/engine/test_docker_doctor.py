"""A look at a replica's network from inside, on Docker: a resolver and a server stand at public addresses of a network
of the test's own, so that "it can be reached" means something on a machine without the internet."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.engines.diagnosis import Destination, NetworkQuestions, Outcome
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of
from tests.engine.isolation_support import addresses, script_of

HERE, OUTSIDE = "192.31.196.1", "192.31.196.2"
"""Public, of a service that any network may run for itself (AS112); both ends are devices of the test's own."""
NAME = "weights.moorage.test"
QUESTIONS = NetworkQuestions(
    names=(NAME, "absent.moorage.test"),
    outbound=(Destination(OUTSIDE, 443), Destination(OUTSIDE, 444)),
    forbidden=(Destination("169.254.169.254", 80), Destination("10.0.0.1", 80)),
)


@pytest.fixture
def outside() -> Iterator[None]:
    """Another machine, as far as packets can tell: a process in a network namespace behind a cable."""
    script = script_of(_serve_outside, call=f"_serve_outside({OUTSIDE!r}, {NAME!r})")
    command = ("unshare", "--net", sys.executable, "-c", script)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "inside\n"
            cable = f"moorout{process.pid % 10_000}"
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
            _ip("addr", "add", f"{HERE}/24", "dev", cable)
            _ip("link", "set", cable, "up")
            process.stdin.write("the cable is in\n")
            process.stdin.flush()
            assert process.stdout.readline() == "serving\n"
            yield
        finally:
            process.kill()  # the cable goes with its other end


@pytest.mark.long
async def test_what_a_replica_reaches(docker_world: DockerWorld, outside: None) -> None:
    engine = DockerEngine(docker_world.docker_host, docker_world.installation_id, system_clock, (OUTSIDE,))
    started = await engine.start(await spec_of(docker_world, "serves"))
    found = await engine.diagnose_network(started.engine_id, QUESTIONS)
    _, gateway = await addresses(docker_world, started)
    await engine.close()

    assert (found.resolvers, found.upstream_resolvers) == (("127.0.0.11",), (OUTSIDE,))
    resolved, absent = found.names
    assert (resolved.addresses, resolved.failure) == ((OUTSIDE,), None)
    assert absent.addresses == ()
    assert absent.failure is not None
    assert "no such name (NXDOMAIN)" in absent.failure
    assert [one.outcome for one in found.outbound] == [Outcome.CONNECTED, Outcome.REFUSED]
    assert {(one.address, one.outcome) for one in found.forbidden} == {
        ("169.254.169.254", Outcome.TIMED_OUT),
        ("10.0.0.1", Outcome.TIMED_OUT),
        (gateway, Outcome.TIMED_OUT),
    }


@pytest.mark.long
async def test_nobody_answers(docker_world: DockerWorld, outside: None) -> None:
    """The resolver is silent: it takes no longer than it may, and says which one."""
    silent = "192.31.196.77"
    engine = DockerEngine(docker_world.docker_host, docker_world.installation_id, system_clock, (silent,))
    started = await engine.start(await spec_of(docker_world, "serves"))
    began_s = time.monotonic()
    found = await engine.diagnose_network(
        started.engine_id, NetworkQuestions((NAME,), (Destination(silent, 443),), ())
    )
    took_s = time.monotonic() - began_s
    await engine.close()

    assert took_s < 20
    (name,) = found.names
    assert name.addresses == ()
    assert name.failure is not None
    assert name.failure.startswith("127.0.0.11 ")
    assert [one.outcome for one in found.outbound] == [Outcome.UNREACHABLE]


@pytest.mark.long
async def test_it_stands_in_the_replicas_network_as_nobody(docker_world: DockerWorld) -> None:
    """What the namespace alone has, its loopback, is what is reached; and no process of it stays behind."""
    engine = docker_world.engine
    started = await engine.start(await spec_of(docker_world, "serves"))

    async def listens() -> bool:
        return len(await engine.listening_sockets(started.engine_id)) > 0

    await docker_world.until(listens)
    inside = NetworkQuestions((), (Destination("127.0.0.1", 8000), Destination("127.0.0.1", 8001)), ())
    found = await engine.diagnose_network(started.engine_id, inside)
    assert [one.outcome for one in found.outbound] == [Outcome.CONNECTED, Outcome.REFUSED]
    assert [line for line in _command_lines() if "network_probe" in line] == []


def _command_lines() -> list[str]:
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().decode(errors="replace"))
        except OSError:
            continue  # it ended between the list and the look
    return lines


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, timeout=20)


# What follows runs outside.


def _serve_outside(address: str, name: str) -> None:
    import socket
    import subprocess
    import sys
    import threading

    print("inside", flush=True)
    sys.stdin.readline()
    for command in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
        subprocess.run(["ip", *command.split()], check=True)
    known = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    resolver.bind((address, 53))

    def resolve() -> None:
        while True:
            question, asker = resolver.recvfrom(600)
            end = question.index(b"\0", 12) + 5
            record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + socket.inet_aton(address)
            found = question[12:].startswith(known)
            head = question[:2] + (b"\x81\x80\x00\x01\x00\x01" if found else b"\x81\x83\x00\x01\x00\x00")
            resolver.sendto(head + bytes(4) + question[12:end] + (record if found else b""), asker)

    threading.Thread(target=resolve, daemon=True).start()
    server = socket.create_server((address, 443))
    print("serving", flush=True)
    while True:
        server.accept()[0].close()
