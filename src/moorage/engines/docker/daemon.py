"""Finding a Docker engine, or starting one of our own.

In this order: the one that the settings name; the one that was found the last time, because it holds the replicas; the
system's; one of ours that still runs; one of ours, started from the installed `dockerd`; Debian's `docker.io`, installed
and then started. An engine that appears later is left alone: to change over takes a word of the operator. A dockerd of
ours keeps everything below `MOORAGE_HOME`, runs in a session of its own with `--live-restore`, and so survives us as its
containers survive it.

The programs run from the system's packages and are not copied into `MOORAGE_HOME` as Postgres and HAProxy
are: they come from the system's package manager, not from our Python environment, so no upgrade of ours can
pull them away.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from moorage.engines.docker.connection import UNIX_PREFIX, answers
from moorage.engines.docker.install import SYSTEM_PATH, install_engine
from moorage.engines.docker.priority import lower, write_proxy
from moorage.kit.clock import Clock, system_clock
from moorage.kit.daemon import Daemon, identity_of
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings
from moorage.kit.whole_files import write_whole

SYSTEM_HOST = "unix:///var/run/docker.sock"
_OWN = "own"
_CHOSEN_FILE = "engine"
CONCURRENT_DOWNLOADS = 100
"""Docker counts the layers of all pulls together, three by default: one organization's slow ones would be the only
ones. How many each pull and each organization may have is the pull proxy's to say."""
_START_TIMEOUT_S = 90.0
_STOP_GRACE_S = 30.0
_LONGEST_SOCKET_PATH = 104
_LONGEST_PATH_BELOW_RUN_DIR = "/docker/containerd/containerd-debug.sock"
_PASSED_ON = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
)

Progress = Callable[[str], None]


async def ensure_engine(settings: Settings, progress: Progress) -> str:
    """The `docker_host` of an engine that answers. Raises `SetupError`, which says what to do."""
    chosen = _chosen(settings)
    if settings.docker_host is not None:
        if not await answers(settings.docker_host):
            raise SetupError(
                f"No Docker engine answers at {settings.docker_host}, which docker_host names. Start it, or "
                "remove the setting."
            )
        host = settings.docker_host
        if chosen not in (None, host):
            progress(
                f"From now on replicas run at {host}. Those at the previous engine ({chosen}) stay there."
            )
    elif chosen == _OWN:
        host = await ensure_own_engine(settings, progress)
    elif chosen is not None:
        host = await _chosen_before(chosen)
    else:
        host = await _system_engine(progress) or await ensure_own_engine(settings, progress)
    _remember(settings, host)
    return host


def known_host(settings: Settings) -> str:
    """Where the engine of this installation is, or would be; nothing is started."""
    chosen = settings.docker_host or _chosen(settings)
    return _OwnEngine(settings, SYSTEM_PATH, system_clock).host if chosen == _OWN else chosen or SYSTEM_HOST


def _chosen(settings: Settings) -> str | None:
    """The engine of the last start; before that was written down, data of an engine of ours told of it."""
    own = _OwnEngine(settings, SYSTEM_PATH, system_clock)
    try:
        return (settings.home / _CHOSEN_FILE).read_text().strip() or None
    except FileNotFoundError:
        return _OWN if own.data_root.exists() else None


def _remember(settings: Settings, host: str) -> None:
    own = _OwnEngine(settings, SYSTEM_PATH, system_clock)
    settings.home.mkdir(parents=True, exist_ok=True)
    write_whole(settings.home / _CHOSEN_FILE, f"{_OWN if host == own.host else host}\n", 0o644)


async def _chosen_before(host: str) -> str:
    if not await answers(host):
        raise SetupError(
            f"The Docker engine at {host}, where this installation's replicas are, does not answer. Start "
            "it. To use another engine instead, name it with MOORAGE_DOCKER_HOST; the replicas then start "
            "there again."
        )
    return host


async def ensure_own_engine(
    settings: Settings, progress: Progress, search_path: str = SYSTEM_PATH, clock: Clock = system_clock
) -> str:
    """A dockerd of ours, adopted or started; installed first where it may be."""
    own = _OwnEngine(settings, search_path, clock)
    own.check_paths()
    with own.daemon.start_lock():
        if await own.adopt():
            return own.host
        if os.geteuid() != 0:
            raise SetupError(
                "No Docker engine answers, and only root can start one. Start Docker (e.g. sudo systemctl "
                "start docker) and give this user access to it, or run Moorage as root."
            )
        if shutil.which("dockerd", path=search_path) is None:
            await install_engine(settings, progress, search_path)
            # On a machine with an init system the package starts its engine itself.
            system = await _system_engine(progress)
            if system is not None:
                return system
        progress("Starting a Docker engine of Moorage's own …")
        await own.start()
    return own.host


def own_engine_is_running(settings: Settings) -> bool:
    return _OwnEngine(settings, SYSTEM_PATH, system_clock).daemon.running_pid() is not None


async def stop_engine(settings: Settings) -> None:
    """Stops a dockerd of ours, and no other. Its containers run on and are found again by the next one."""
    own = _OwnEngine(settings, SYSTEM_PATH, system_clock)
    if not own.daemon.run_dir.exists():
        return
    with own.daemon.start_lock():
        await own.adopt()  # a pid file that got lost must not hide the process
        await own.daemon.stop(grace_s=_STOP_GRACE_S)


async def remove_engine_data(settings: Settings) -> None:
    """Deletes images, containers and networks of a dockerd of ours that has been stopped."""
    own = _OwnEngine(settings, SYSTEM_PATH, system_clock)
    if own.daemon.running_pid() is not None:
        raise SetupError("Moorage's Docker engine still runs. Stop it before you remove its data.")
    await asyncio.to_thread(_unmount_below, own.exec_root, own.data_root)
    for folder in (own.exec_root, own.data_root):
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)
    (settings.home / _CHOSEN_FILE).unlink(missing_ok=True)


async def _system_engine(progress: Progress) -> str | None:
    named = os.environ.get("DOCKER_HOST")
    if named:
        if await answers(named):
            return named
        progress(f"DOCKER_HOST names {named}, but no Docker engine answers there. Trying others.")
    return SYSTEM_HOST if await answers(SYSTEM_HOST) else None


class _OwnEngine:
    def __init__(self, settings: Settings, search_path: str, clock: Clock) -> None:
        run_dir = settings.run_dir.absolute()
        self.daemon = Daemon("dockerd", run_dir, clock)
        self.socket = run_dir / "docker.sock"
        self.host = f"{UNIX_PREFIX}{self.socket}"
        self.exec_root = run_dir / "docker"
        self.data_root = settings.home.absolute() / "docker"
        # Not `dockerd.pid`: that is the daemon's record in our own format.
        self.engine_pid_file = run_dir / "dockerd-self.pid"
        self.containerd_pid_file = self.exec_root / "containerd" / "containerd.pid"
        self.proxy = run_dir / "docker-proxy"
        self.log_file = settings.log_dir.absolute() / "dockerd.log"
        self._search_path = search_path
        self._clock = clock

    def check_paths(self) -> None:
        longest = f"{self.daemon.run_dir}{_LONGEST_PATH_BELOW_RUN_DIR}"
        if len(longest.encode()) > _LONGEST_SOCKET_PATH:
            allowed = _LONGEST_SOCKET_PATH - len("/run" + _LONGEST_PATH_BELOW_RUN_DIR)
            raise SetupError(
                f"MOORAGE_HOME ({self.daemon.run_dir.parent}) is too long for the sockets below it: "
                f"choose a path of at most {allowed} characters."
            )

    async def adopt(self) -> bool:
        if not await answers(self.host):
            return False
        if self.daemon.running_pid() is None:
            pid = _pid_in(self.engine_pid_file, program="dockerd")
            if pid is None:
                return False
            self.daemon.record(pid)
        self._lower_priority()
        return True

    async def start(self) -> None:
        if self.daemon.running_pid() is not None:
            # It runs but did not answer. It may just be starting; if it hangs, that is its last chance.
            if await self._answers_in_time():
                return
            await self.daemon.stop(grace_s=_STOP_GRACE_S)
        self._remove_stale_files()
        self.data_root.mkdir(parents=True, exist_ok=True)
        log_offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.daemon.spawn(
            self._argv(),
            log_file=self.log_file,
            environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            | {"PATH": self._search_path, "HOME": str(self.data_root)},
            umask=0o022,
        )
        if not await self._answers_in_time():
            died = self.daemon.running_pid() is None
            await self.daemon.stop(grace_s=_STOP_GRACE_S)
            what = "ended at once" if died else f"did not answer within {_START_TIMEOUT_S:g} s"
            raise SetupError(
                f"The Docker engine {what}. Its last words: {self._last_words(log_offset)} (in {self.log_file})"
            )
        self._lower_priority()

    def _lower_priority(self) -> None:
        pid = self.daemon.running_pid()
        if pid is not None and os.geteuid() == 0:
            lower(pid)

    def _argv(self) -> list[str]:
        program = shutil.which("dockerd", path=self._search_path)
        if program is None:
            raise SetupError("There is no dockerd on this machine.")
        return [
            program,
            *("--host", self.host),
            # The socket is as good as root: not for a group that may have members.
            *("--group", "root"),
            *("--data-root", str(self.data_root)),
            *("--exec-root", str(self.exec_root)),
            *("--pidfile", str(self.engine_pid_file)),
            "--live-restore",
            # No bridge of Docker's own: replicas live on the one that Moorage makes and guards.
            *("--bridge", "none"),
            *("--log-level", "warn"),
            *("--max-concurrent-downloads", str(CONCURRENT_DOWNLOADS)),
            *self._proxy_option(),
        ]

    def _proxy_option(self) -> tuple[str, ...]:
        written = write_proxy(self.proxy, self._search_path)
        return ("--userland-proxy-path", str(self.proxy)) if written else ()

    def _remove_stale_files(self) -> None:
        # dockerd refuses to start while a pid file names any process at all, a zombie included.
        for file, program in ((self.engine_pid_file, "dockerd"), (self.containerd_pid_file, "containerd")):
            if _pid_in(file, program) is None:
                file.unlink(missing_ok=True)

    async def _answers_in_time(self) -> bool:
        deadline = self._clock.monotonic() + _START_TIMEOUT_S
        while self._clock.monotonic() < deadline and self.daemon.running_pid() is not None:
            if self.socket.exists() and await answers(self.host):
                return True
            await asyncio.sleep(0.05)
        return False

    def _last_words(self, log_offset: int) -> str:
        with open(self.log_file, "rb") as log:
            log.seek(log_offset)
            lines = log.read()[-4000:].decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "none"


def _pid_in(file: Path, program: str) -> int | None:
    """The process that the file names, if it lives and is that program; a number may have a new owner."""
    try:
        pid = int(file.read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if name == program and identity_of(pid) is not None else None


def _unmount_below(*folders: Path) -> None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4].replace("\\040", " ")) for line in lines]
    for point in reversed(points):  # the innermost were mounted last
        if any(point.is_relative_to(folder) for folder in folders):
            _unmount(point)


def _unmount(point: Path) -> None:
    subprocess.run(["umount", "--lazy", str(point)], check=True, capture_output=True, timeout=30)
