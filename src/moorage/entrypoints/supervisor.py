"""Keeps the roles and the daemons of one machine running, for `moor up`."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moorage.kit.clock import system_clock
from moorage.kit.log_files import open_log_file
from moorage.kit.priority import FIRST, set_priority

LONGEST_PAUSE_S = 10.0
STEADY_AFTER_S = 30.0
CHECK_DAEMONS_EVERY_S = 1.0
STOP_GRACE_S = 15.0
_WAITED_FOR = ("api",)
"""People wait for it. The gateway role itself does not serve requests: HAProxy does."""


@dataclass
class RoleProcess:
    """One role, started again whenever it ends; the pause grows while it keeps ending early."""

    role: str
    log_dir: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    pid: int | None = field(init=False, default=None)

    async def run(self) -> None:
        pause_s = 0.2
        while True:
            started_s = system_clock.monotonic()
            try:
                how = _how(await self._run_once())
            except OSError as exc:
                # No memory for another process, no room for its log: that passes, and the other roles go on.
                how = f"could not be started: {exc.strerror}"
            pause_s = (
                0.2
                if system_clock.monotonic() - started_s > STEADY_AFTER_S
                else min(pause_s * 2, LONGEST_PAUSE_S)
            )
            self.say(f"The {self.role} {how}. Restarting it. Its log: {self._log_file}")
            await system_clock.sleep(pause_s)

    @property
    def _log_file(self) -> Path:
        return self.log_dir / f"{self.role}.log"

    async def _run_once(self) -> int:
        log = open_log_file(self._log_file)
        command = ("-m", "moorage.entrypoints.moor", "serve", "--role", self.role, "--exit-with-parent")
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                # Ctrl-C goes to the supervisor, which stops the roles in their order; and what one role computes is
                # not weighed together with what another does.
                start_new_session=True,
            )
        finally:
            os.close(log)
        self.pid = process.pid
        if self.role in _WAITED_FOR:
            set_priority(process.pid, FIRST)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise


@dataclass(frozen=True)
class SupervisedDaemon:
    name: str
    alive: Callable[[], bool]
    start: Callable[[], Awaitable[None]]


async def keep_daemons(daemons: Sequence[SupervisedDaemon], say: Callable[[str], None]) -> None:
    """Start again what died."""
    while True:
        await system_clock.sleep(CHECK_DAEMONS_EVERY_S)
        for daemon in daemons:
            try:
                if not daemon.alive():
                    say(f"{daemon.name} is gone. Restarting it.")
                    await daemon.start()
            except Exception as exc:  # noqa: BLE001 - said, and tried again in a second
                say(f"{daemon.name} could not be started: {exc}")


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_GRACE_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _how(status: int) -> str:
    return f"ended (signal {-status})" if status < 0 else f"ended (exit code {status})"
