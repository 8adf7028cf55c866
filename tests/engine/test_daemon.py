"""Finding, starting, losing and finding again a Docker engine of our own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from moorage.engines.base import ReplicaPhase
from moorage.engines.docker.connection import DockerConnection, answers
from moorage.engines.docker.daemon import ensure_engine, ensure_own_engine, stop_engine
from moorage.kit.daemon import Daemon, identity_of
from moorage.kit.errors import EngineError, SetupError
from moorage.kit.priority import BEHIND
from moorage.kit.settings import Settings
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of
from tests.engine_fixtures import is_own_engine
from tests.priorities import priority_of


@pytest.fixture
def own_engine(engine_settings: Settings, docker_host: str) -> Daemon:
    if not is_own_engine(engine_settings, docker_host):
        pytest.skip("the machine's own Docker engine is in use, and it is not ours to kill")
    return Daemon("dockerd", engine_settings.run_dir.absolute())


@pytest.mark.long
async def test_kill_of_the_engine_leaves_containers_running(
    engine_settings: Settings, own_engine: Daemon, docker_world: DockerWorld
) -> None:
    script = f"echo up; {docker_world.command('serves')[-1]}"
    spec = replace(await spec_of(docker_world, "serves"), command=("/bin/sh", "-c", script))
    changes = docker_world.engine.watch()
    started = await docker_world.engine.start(spec)
    process_pid = await _process_pid(docker_world, started.engine_id)
    heard: list[object] = []
    followers = [
        asyncio.create_task(_follow(changes, heard)),
        asyncio.create_task(_follow(docker_world.engine.logs(started.engine_id, 0), heard)),
    ]
    await docker_world.until(_holds(lambda: len(heard) == 1))

    engine_pid = own_engine.running_pid()
    assert engine_pid is not None
    os.kill(engine_pid, signal.SIGKILL)
    await docker_world.until(_holds(lambda: own_engine.running_pid() is None))

    # Nobody takes a broken connection for the end, nor an engine that is away for an empty one.
    for follower in followers:
        with pytest.raises(EngineError):
            await asyncio.wait_for(follower, timeout=10)
    with pytest.raises(EngineError):
        await docker_world.engine.list_replicas()
    assert identity_of(process_pid) is not None

    host = await ensure_engine(engine_settings, lambda line: None)
    assert host == docker_world.docker_host
    assert own_engine.running_pid() not in (None, engine_pid)
    await docker_world.engine.prepare()
    assert docker_world.engine.network_isolation.reason is None
    assert await docker_world.engine.list_replicas() == [started]
    assert await _process_pid(docker_world, started.engine_id) == process_pid
    assert b"hello from busybox" in await _get(spec.host_port)
    await docker_world.engine.stop(started.engine_id, grace_s=2)
    stopped = await docker_world.engine.inspect(spec.replica_id)
    assert stopped is not None
    assert stopped.phase is ReplicaPhase.EXITED


@pytest.mark.long
async def test_stop_of_the_engine_leaves_containers_running(
    engine_settings: Settings, own_engine: Daemon, docker_world: DockerWorld
) -> None:
    started = await docker_world.engine.start(await spec_of(docker_world, "serves"))
    process_pid = await _process_pid(docker_world, started.engine_id)
    await stop_engine(engine_settings)
    assert own_engine.running_pid() is None
    assert not await answers(docker_world.docker_host)
    await ensure_engine(engine_settings, lambda line: None)
    assert await docker_world.engine.list_replicas() == [started]
    assert await _process_pid(docker_world, started.engine_id) == process_pid


async def test_a_running_engine_is_adopted(
    engine_settings: Settings, own_engine: Daemon, docker_host: str
) -> None:
    pid = own_engine.running_pid()
    own_engine.pid_file.unlink()  # even if the record of it got lost
    assert await ensure_engine(engine_settings, lambda line: None) == docker_host
    assert own_engine.running_pid() == pid


async def test_named_engine_that_does_not_answer(short_home: Path) -> None:
    settings = Settings(home=short_home, docker_host=f"unix://{short_home}/absent.sock")
    with pytest.raises(SetupError, match=r"/absent\.sock") as caught:
        await ensure_engine(settings, lambda line: None)
    assert "\n" not in str(caught.value)


async def test_named_engine_that_answers(docker_host: str, short_home: Path) -> None:
    settings = Settings(home=short_home, docker_host=docker_host)
    assert await ensure_engine(settings, lambda line: None) == docker_host
    await stop_engine(settings)
    assert await answers(docker_host), "an engine that is not ours must not be stopped"


async def test_home_too_long_for_sockets(short_home: Path) -> None:
    with pytest.raises(SetupError, match="too long"):
        await ensure_own_engine(Settings(home=short_home / ("x" * 80)), lambda line: None)


async def test_engine_that_dies_is_quoted(short_home: Path) -> None:
    search_path = _programs(short_home, dockerd="echo 'failed to start daemon: boom'; exit 1")
    with pytest.raises(SetupError, match="failed to start daemon: boom"):
        await ensure_own_engine(Settings(home=short_home), lambda line: None, search_path)


async def test_stale_pid_files_are_removed(short_home: Path) -> None:
    run_dir = short_home / "run"
    stale = [run_dir / "dockerd-self.pid", run_dir / "docker" / "containerd" / "containerd.pid"]
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(os.getpid()))  # alive, but neither dockerd nor containerd
    with pytest.raises(SetupError):
        await ensure_own_engine(
            Settings(home=short_home), lambda line: None, _programs(short_home, dockerd="exit 1")
        )
    assert [file for file in stale if file.exists()] == []


@pytest.mark.parametrize(
    ("programs", "install", "words"),
    [
        ({}, True, "no apt-get"),
        ({"apt-get": "exit 0"}, False, "install_engine forbids"),
        ({"apt-get": "exit 0", "dpkg-query": "printf installed"}, True, "docker.io is installed"),
        ({"apt-get": "echo 'E: no network'; exit 100"}, True, "apt-get update failed: E: no network"),
    ],
)
async def test_nothing_to_start(
    short_home: Path, programs: dict[str, str], install: bool, words: str
) -> None:
    settings = Settings(home=short_home, install_engine=install)
    with pytest.raises(SetupError, match=words) as caught:
        await ensure_own_engine(settings, lambda line: None, _programs(short_home, **programs))
    assert "\n" not in str(caught.value)


async def test_installed_where_it_is_missing(short_home: Path) -> None:
    """What is installed is then started: here a dockerd that says which arguments apt-get was given."""
    folder = short_home / "bin"
    install = f'echo "$@" >> {folder}/calls; printf "#!/bin/sh\\necho started; exit 1\\n" > {folder}/dockerd; /bin/chmod +x {folder}/dockerd'
    search_path = _programs(short_home, **{"apt-get": install})
    lines: list[str] = []
    with pytest.raises(SetupError, match="started"):
        await ensure_own_engine(Settings(home=short_home), lines.append, search_path)
    assert (folder / "calls").read_text().splitlines() == [
        "-o DPkg::Lock::Timeout=300 update",
        "-o DPkg::Lock::Timeout=300 install -y --no-install-recommends --no-remove docker.io iptables",
    ]
    assert len(lines) == 3


async def test_lists_that_another_program_holds_are_waited_for(short_home: Path) -> None:
    folder = short_home / "bin"
    script = f"""
        echo "$@" >> {folder}/calls
        [ "$(/usr/bin/wc -l < {folder}/calls)" -ge 3 ] && echo 'E: the next trouble' && exit 100
        echo 'E: Could not get lock /var/lib/apt/lists/lock.'
        echo 'E: Unable to lock directory /var/lib/apt/lists/'
        exit 100
    """
    search_path = _programs(short_home, **{"apt-get": script})
    with pytest.raises(SetupError, match="apt-get update failed: E: the next trouble"):
        await ensure_own_engine(Settings(home=short_home), lambda line: None, search_path)
    assert len((folder / "calls").read_text().splitlines()) == 3


def _programs(home: Path, **scripts: str) -> str:
    """A search path with these programs and nothing else."""
    folder = home / "bin"
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def _holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return condition()

    return holds


async def _follow(items: AsyncIterator[object], heard: list[object]) -> None:
    async for item in items:
        heard.append(item)


async def _process_pid(world: DockerWorld, engine_id: str) -> int:
    connection = DockerConnection(world.docker_host)
    inspected = await connection.docker.containers.container(engine_id).show()
    await connection.close()
    return int(inspected["State"]["Pid"])


async def _get(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_engine_gives_way_to_what_it_carries(own_engine: Daemon, docker_world: DockerWorld) -> None:
    """Its own work comes after everybody else's; the proxy that carries a replica's requests is not part of that."""
    spec = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(spec)
    engine_pid = own_engine.running_pid()
    assert engine_pid is not None
    (containerd,) = _descendants(engine_pid, "containerd")
    (proxy,) = {
        pid for pid in _descendants(engine_pid, "docker-proxy") if str(spec.host_port) in _arguments(pid)
    }
    for thread in os.listdir(f"/proc/{engine_pid}/task"):
        assert priority_of(int(thread)) == (BEHIND, BEHIND)
    assert priority_of(containerd)[1] == 0
    assert priority_of(proxy) == (0, 0)
    assert os.getsid(proxy) == proxy
    await docker_world.engine.stop(started.engine_id, grace_s=2)
    await docker_world.until(_holds(lambda: identity_of(proxy) is None))


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def _descendants(pid: int, program: str) -> set[int]:
    found = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            if Path(f"/proc/{child}/comm").read_text().strip() == program:
                found.add(child)
            found |= _descendants(child, program)
    return found


async def test_an_engine_that_appears_later_is_not_preferred(
    docker_host: str, short_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replicas are where they were; at another engine they would all look lost."""
    settings = Settings(home=short_home)
    absent = f"unix://{short_home}/absent.sock"
    (short_home / "engine").write_text(f"{absent}\n")
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    with pytest.raises(SetupError, match=r"absent\.sock.*does not answer.*MOORAGE_DOCKER_HOST"):
        await ensure_engine(settings, lambda line: None)

    said: list[str] = []
    named = Settings(home=short_home, docker_host=docker_host)
    assert await ensure_engine(named, said.append) == docker_host
    assert "stay there" in said[0]
    assert await ensure_engine(settings, said.append) == docker_host
    assert len(said) == 1


async def test_an_engine_of_ours_is_kept(short_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data is there from before the choice was written down; whoever answers elsewhere, it is the one that is asked."""
    asked: list[str] = []

    async def own(settings: Settings, progress: Callable[[str], None]) -> str:
        asked.append(str(settings.home))
        return f"unix://{settings.run_dir.absolute()}/docker.sock"

    monkeypatch.setattr("moorage.engines.docker.daemon.ensure_own_engine", own)
    (short_home / "docker").mkdir()
    settings = Settings(home=short_home)
    assert await ensure_engine(settings, lambda line: None) == f"unix://{short_home}/run/docker.sock"
    assert (short_home / "engine").read_text() == "own\n"
    assert asked == [str(short_home)]


async def test_logs_are_not_for_every_user(own_engine: Daemon, engine_settings: Settings) -> None:
    assert (engine_settings.log_dir / "dockerd.log").stat().st_mode & 0o077 == 0
