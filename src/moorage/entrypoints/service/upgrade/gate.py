"""Whether a role that was restarted serves: the version that was started says what that takes (`moor ready`), this waits for it."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.upgrade.manager import ServiceManager
from moorage.kit.clock import system_clock
from moorage.kit.errors import SetupError

_ASK_EVERY_S = 0.3
_ANSWERS_WITHIN_S = 30.0
_STEADY_S = 2.0
"""As long as one that is ready must go on to be believed."""
_STARTS = 6
"""Ended as often, it will end again."""


class NotServingError(SetupError):
    pass


@dataclass(frozen=True)
class Gate:
    installation: Installation
    manager: ServiceManager
    within_s: float

    async def until_serving(self, role: str, unit: str, environment: Path, since_s: float) -> None:
        """`since_s`: of the wall clock, when it was asked to be this version."""
        deadline = system_clock.monotonic() + self.within_s
        pids: list[int] = []
        reason, steady_at = "nothing runs", None
        while system_clock.monotonic() < deadline:
            pid = await asyncio.to_thread(self.manager.main_pid, unit)
            if pid and pid not in pids:
                pids.append(pid)
                steady_at = None
            if len(pids) > _STARTS:
                raise NotServingError(f"{unit} ended {_STARTS} times: {reason}.")
            missing = await self.missing(role, pid, environment, since_s)
            if missing is not None:
                reason, steady_at = missing, None
            elif steady_at is None:
                steady_at = system_clock.monotonic() + _STEADY_S
            elif system_clock.monotonic() >= steady_at:
                return
            await asyncio.sleep(_ASK_EVERY_S)
        raise NotServingError(f"{unit} did not serve within {self.within_s:.0f} s: {reason}.")

    async def missing(self, role: str, pid: int, environment: Path, since_s: float) -> str | None:
        """None: nothing."""
        if not pid:
            return "nothing runs"
        found = environment_of(pid)
        if found != environment:
            return f"it runs from {found}"
        command = [
            str(environment / "bin/moor"),
            "ready",
            "--role",
            role,
            "--pid",
            str(pid),
            "--since",
            str(since_s),
        ]
        return await asyncio.to_thread(self._asked, command)

    def _asked(self, command: list[str]) -> str | None:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_ANSWERS_WITHIN_S, check=False,
                env=environment_for(self.installation),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"`moor ready` did not answer ({exc})"
        return (
            None
            if done.returncode == 0
            else (done.stderr or done.stdout).strip()[-400:] or "it does not say why"
        )


def environment_of(pid: int) -> Path | None:
    """Which version a process is of: `ENVIRONMENT/bin/python3` runs it."""
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Path(program).parent.parent if program else None


def environment_for(installation: Installation) -> Mapping[str, str]:
    """As the units have it, whatever is set where this was typed."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    return {**others, "MOORAGE_HOME": str(installation.home), "MOORAGE_CONFIG": str(installation.config)}
