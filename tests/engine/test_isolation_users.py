"""What replicas share with the machine's users and with each other: its loopback, its names, its kernel's counters."""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moorage.engines.docker import firewall, host_limits, iptables
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError
from tests.engine.conftest import TEST_PORTS, DockerWorld
from tests.engine.contract import MEBIBYTE, spec_of
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    addresses,
    answer_of,
    build_python_images,
    inspected,
    python_spec,
    script_of,
    until_open,
)

NOBODY = 65534
needs_python = pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN)


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
async def test_only_users_of_ours_reach_a_replica(guarded_world: DockerWorld) -> None:
    world = guarded_world
    assert world.engine.network_isolation.weaknesses == ()
    spec = await spec_of(world, "serves")
    started = await world.engine.start(spec)
    address, _ = await addresses(world, started)
    await until_open(world, "127.0.0.1", spec.host_port)
    await until_open(world, address, spec.port)
    for target, port in (("127.0.0.1", spec.host_port), (address, spec.port)):
        assert await _connects_as(0, target, port)
        assert not await _connects_as(NOBODY, target, port), (target, port)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
async def test_only_engines_reach_the_proxy_for_pulls(guarded_world: DockerWorld) -> None:
    """Whoever connects and says nothing would hold a descriptor of the controller for good."""
    assert guarded_world.pulls is not None
    port = guarded_world.pulls.port
    assert port is not None
    assert await _connects_as(0, "127.0.0.1", port)
    assert not await _connects_as(NOBODY, "127.0.0.1", port)
    suffix = BridgeNetwork(guarded_world.installation_id).suffix
    rules = [line for line in await iptables.present_rules("iptables") if suffix in line]
    await guarded_world.engine.prepare()
    present = await iptables.present_rules("iptables")
    assert [line for line in present if suffix in line] == rules, "set once"


async def test_the_rules_for_users_are_kept_in_front(guarded_world: DockerWorld) -> None:
    network = BridgeNetwork(guarded_world.installation_id)
    assert guarded_world.pulls is not None
    use = firewall.LocalUse(TEST_PORTS, (0,), guarded_world.pulls.port)
    chain = firewall.local_chain(network.bridge, network.suffix, use)
    accept = ("OUTPUT", "-o", "lo", "-j", "ACCEPT")
    await iptables.run("iptables", "-w", "10", "-I", *accept)
    try:
        assert not firewall.is_enforced(chain, await iptables.present_rules("iptables"))
        await guarded_world.engine.prepare()
        assert firewall.is_enforced(chain, await iptables.present_rules("iptables"))
    finally:
        await iptables.run("iptables", "-w", "10", "-D", *accept)


@needs_python
@pytest.mark.usefixtures("_images")
async def test_the_resolver_names_no_neighbour(docker_world: DockerWorld) -> None:
    neighbour = await spec_of(docker_world, "serves")
    address, _ = await addresses(docker_world, await docker_world.engine.start(neighbour))
    script = script_of(_name_behind, call=f"_name_behind({address!r})")
    answer = await answer_of(docker_world, await python_spec(docker_world, script))
    assert answer["asked"] == "127.0.0.11", "Docker's own resolver is the one that would know"
    assert bytes.fromhex(answer["reply"])[:2] == b"PT", "it answered"
    shown = bytes.fromhex(answer["reply"]).decode("latin-1")
    for secret in (neighbour.replica_id, neighbour.container_id, neighbour.replica_id.replace("_", "-")):
        assert secret not in shown


async def test_replicas_of_an_earlier_version_are_adopted(docker_world: DockerWorld) -> None:
    """They bear their id as a name."""
    spec = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(spec)
    connection = DockerConnection(docker_world.docker_host)
    await connection.docker.containers.container(started.engine_id).rename(spec.replica_id)
    await connection.close()
    found = await docker_world.engine.inspect(spec.replica_id)
    assert found is not None
    assert found.engine_id == started.engine_id
    assert (await docker_world.engine.start(spec)).engine_id == started.engine_id
    assert len(await docker_world.engine.list_replicas()) == 1


async def test_an_image_that_was_pruned_is_told_by_its_code(docker_world: DockerWorld) -> None:
    spec = replace(await spec_of(docker_world, "serves"), image=f"sha256:{'ab' * 32}")
    with pytest.raises(EngineError) as caught:
        await docker_world.engine.start(spec)
    assert caught.value.code == "image_gone"


async def test_nothing_new_starts_where_the_firewall_cannot_be_set(
    docker_world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(running)
    # As on a machine without iptables.
    monkeypatch.setattr(iptables, "_SEARCH_PATH", "/nowhere")
    await docker_world.engine.prepare()
    (machine,) = await docker_world.engine.capacity()
    assert machine.closed_because == "iptables is not installed"
    with pytest.raises(EngineError, match="iptables is not installed") as caught:
        await docker_world.engine.start(await spec_of(docker_world, "serves"))
    assert caught.value.code == "not_isolated"
    assert (await docker_world.engine.start(running)).engine_id == started.engine_id, "what runs is adopted"
    waived = DockerEngine(
        docker_world.docker_host, docker_world.installation_id, system_clock, isolation_required=False
    )
    try:
        other = await spec_of(docker_world, "serves")
        await waived.start(other)
        (machine,) = await waived.capacity()
        assert machine.closed_because is None
        assert "iptables is not installed" in machine.weaknesses[0]
    finally:
        await waived.close()
        monkeypatch.undo()
    await docker_world.engine.prepare()
    (machine,) = await docker_world.engine.capacity()
    assert (machine.closed_because, machine.weaknesses) == (None, ())


async def test_the_engines_identity_is_told(docker_world: DockerWorld) -> None:
    (machine,) = await docker_world.engine.capacity()
    assert machine.engine_identity


@needs_python
@pytest.mark.usefixtures("_images")
@pytest.mark.parametrize("kind", ["inotify instances", "pipes", "asynchronous requests", "terminals"])
@pytest.mark.long
async def test_one_replica_cannot_take_what_all_share(docker_world: DockerWorld, kind: str) -> None:
    """One takes as many as it can get, as root; a neighbour and the machine's own root still get theirs."""
    with _as_on_a_new_machine():
        await docker_world.engine.prepare()
        script = script_of(_take_all, call=f"_take_all({kind!r})")
        hog = await docker_world.engine.start(
            await python_spec(docker_world, script, memory_bytes=64 * MEBIBYTE)
        )

        async def has_all() -> bool:
            return any("has all" in line for line in await docker_world.engine.last_lines(hog.engine_id, 5))

        await docker_world.until(has_all)
        if kind == "inotify instances":
            _take_one_inotify_instance()
        script = script_of(_take_some, call=f"_take_some({kind!r})")
        assert await answer_of(docker_world, await python_spec(docker_world, script)) == "done"
        pid = int((await inspected(docker_world, hog))["State"]["Pid"])
        assert pid > 0, "the hog still holds what it took"


def test_limits_that_may_not_be_raised_are_named(tmp_path: Path) -> None:
    for name, value in {"fs/aio-max-nr": "65536", "fs/pipe-user-pages-soft": "0"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value)
    (tmp_path / "kernel/pid_max").mkdir(parents=True)  # neither read nor written
    assert host_limits.raise_limits(tmp_path) == ("kernel.pid_max",)
    assert (tmp_path / "fs/aio-max-nr").read_text() == str(2**31 - 1)
    (tmp_path / "fs/aio-max-nr").write_text(str(2**40))
    host_limits.raise_limits(tmp_path)
    assert (tmp_path / "fs/aio-max-nr").read_text() == str(2**40), "nothing is lowered"


@contextlib.contextmanager
def _as_on_a_new_machine() -> Iterator[None]:
    """The limits that kernels begin with; whatever a test finds them raised to is put back."""
    fresh = {
        "fs/inotify/max_user_instances": "128",
        "fs/pipe-user-pages-soft": "16384",
        "fs/aio-max-nr": "65536",
        "kernel/pty/max": "4096",
    }
    files = {host_limits.SYSTEM_SETTINGS / name: value for name, value in fresh.items()}
    before = {file: file.read_text() for file in files}
    try:
        for file, value in files.items():
            file.write_text(value)
        yield
    finally:
        for file, value in before.items():
            file.write_text(value)


async def _connects_as(user_id: int, address: str, port: int) -> bool:
    script = (
        f"import os, socket; os.setresuid({user_id}, {user_id}, {user_id}); "
        f"socket.socket().connect(({address!r}, {port}))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", script, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0 or b"ConnectionRefusedError" in errors, errors
    return process.returncode == 0


def _take_one_inotify_instance() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(0)
    assert handle >= 0, os.strerror(ctypes.get_errno())
    os.close(handle)


# What follows runs inside the container.


def _name_behind(address: str) -> None:
    """A PTR question to the resolver that the container was given."""
    import json
    import socket

    with open("/etc/resolv.conf") as file:
        resolver = next(line.split()[1] for line in file if line.startswith("nameserver"))
    labels = [*reversed(address.split(".")), "in-addr", "arpa"]
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    question = b"PT\x01\x00" + b"\0\x01" + b"\0" * 6 + name + b"\0\x0c\0\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(15)
        asking.sendto(question, (resolver, 53))
        print(json.dumps({"asked": resolver, "reply": asking.recv(4096).hex()}))


def _take_all(kind: str) -> None:
    """More than all that a machine with its first limits has, or as many as there are."""
    import ctypes
    import os
    import platform
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    io_setup = {"x86_64": 206, "aarch64": 0}[platform.machine()]

    def take() -> bool:
        if kind == "inotify instances":
            return bool(libc.inotify_init1(0) >= 0)
        if kind == "pipes":
            os.pipe()
            return True
        if kind == "terminals":
            os.open("/dev/ptmx", os.O_RDWR)
            return True
        context = ctypes.c_ulong()
        return bool(libc.syscall(io_setup, 1024, ctypes.byref(context)) >= 0)

    most = {"inotify instances": 2000, "pipes": 1500, "asynchronous requests": 70, "terminals": 3500}[kind]
    taken = 0
    try:
        while taken < most and take():
            taken += 1
    except OSError as exc:
        print(exc)
    print(f"has all: {taken}", flush=True)
    time.sleep(600)


def _take_some(kind: str) -> None:
    import ctypes
    import fcntl
    import json
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    outcome = "done"
    if kind == "inotify instances":
        outcome = "done" if libc.inotify_init1(0) >= 0 else os.strerror(ctypes.get_errno())
    elif kind == "pipes":
        size = fcntl.fcntl(os.pipe()[0], 1032)  # F_GETPIPE_SZ
        outcome = "done" if size == 65536 else f"a pipe of {size} bytes"
    elif kind == "terminals":
        try:
            os.close(os.open("/dev/ptmx", os.O_RDWR))
        except OSError as exc:
            outcome = str(exc)
    else:
        context = ctypes.c_ulong()
        number = {"x86_64": 206, "aarch64": 0}[platform.machine()]
        result = libc.syscall(number, 1024, ctypes.byref(context))
        outcome = "done" if result >= 0 else os.strerror(ctypes.get_errno())
    print(json.dumps(outcome))
