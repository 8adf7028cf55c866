"""Other programs that must outlive us: Postgres, HAProxy, a dockerd of our own.

Each runs in a session of its own, so that neither Ctrl-C nor kill -9 of a Moorage process touches
it. `run/<name>.pid` names the process by pid *and* start time (a pid alone may be somebody else's by
now); the next start finds it there and adopts it. A lock file keeps two starters from racing.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage.kit.clock import Clock, system_clock
from moorage.kit.lock_files import open_lock_file
from moorage.kit.log_files import open_log_file


@dataclass(frozen=True)
class ProcessIdentity:
    pid: int
    started_at_ticks: int


@dataclass(frozen=True)
class Daemon:
    name: str
    run_dir: Path
    clock: Clock = system_clock

    @property
    def pid_file(self) -> Path:
        return self.run_dir / f"{self.name}.pid"

    @contextlib.contextmanager
    def start_lock(self) -> Iterator[None]:
        """Held while deciding whether to adopt or to spawn."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        with open_lock_file(self.run_dir / f"{self.name}.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def running_pid(self) -> int | None:
        try:
            pid, started_at_ticks = (int(part) for part in self.pid_file.read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        return pid if identity_of(pid) == ProcessIdentity(pid, started_at_ticks) else None

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log_file: Path,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        umask: int = 0o077,
    ) -> int:
        """Start it in a session of its own, with nothing of ours inherited but the log file."""
        with os.fdopen(open_log_file(log_file), "ab") as log:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=True,
                cwd="/",
                env=dict(environment) if environment is not None else None,
                user=user,
                group=user,
                extra_groups=[] if user is not None else None,
                umask=umask,
            )
        self.record(process.pid)
        return process.pid

    def record(self, pid: int) -> None:
        identity = identity_of(pid)
        started_at_ticks = identity.started_at_ticks if identity is not None else 0
        temporary = self.pid_file.with_suffix(".pid.new")
        temporary.write_text(f"{pid} {started_at_ticks}\n")
        temporary.replace(self.pid_file)

    async def stop(self, *, grace_s: float, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, insist after `grace_s`; returns when it is gone."""
        pid = self.running_pid()
        if pid is not None:
            _send(pid, stop_signal)
            if not await self._gone_within(grace_s):
                _send(pid, signal.SIGKILL)
                await self._gone_within(10)
        self.pid_file.unlink(missing_ok=True)

    async def _gone_within(self, seconds: float) -> bool:
        deadline = self.clock.monotonic() + seconds
        while self.running_pid() is not None:
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True


def identity_of(pid: int) -> ProcessIdentity | None:
    """None for a process that is gone; a zombie is gone, and is reaped if it was ours."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        # The second field is the program's name in parentheses and may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started_at_ticks = fields[0], int(fields[19])
    return None if state in ("Z", "X") else ProcessIdentity(pid, started_at_ticks)


def install_binary(source: Path, target: Path) -> Path:
    """Copy a program into the data folder, so that an upgrade of the environment cannot pull it away
    from under a process that still runs from it. Copied anew only when it changed."""
    if not target.exists() or target.stat().st_size != source.stat().st_size:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".new")
        shutil.copy2(source, temporary)
        temporary.chmod(0o755)
        temporary.replace(target)
    return target


def _send(pid: int, stop_signal: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stop_signal)
