"""From one version to another while it serves, or back. Each step has its undoing in `back.py`."""

import asyncio
import contextlib
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moorage.entrypoints.backup import backup
from moorage.entrypoints.full_backup import back_up_everything
from moorage.entrypoints.migrate import DUMPS, remove_old_dumps
from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.plan import Step
from moorage.entrypoints.service.readiness import failing_parts
from moorage.entrypoints.service.steps import exchange_link
from moorage.entrypoints.service.upgrade.back import go_back
from moorage.entrypoints.service.upgrade.gate import Gate, NotServingError, environment_for
from moorage.entrypoints.service.upgrade.journal import Entry, Journal, Stage
from moorage.entrypoints.service.upgrade.manager import ServiceManager
from moorage.entrypoints.service.upgrade.plan import (
    BackUp,
    CheckHealth,
    Migrate,
    PutThere,
    RemoveVersion,
    Renew,
    Switch,
    TakeUnits,
)
from moorage.entrypoints.service.upgrade.release import Release, remove_version
from moorage.kit.clock import system_clock
from moorage.kit.errors import MoorageError, SetupError
from moorage.kit.settings import Settings

Say = Callable[[str], None]
_ASK_EVERY_S = 1.0


class WentBackError(SetupError):
    """The version before runs."""


@dataclass(frozen=True)
class Changeover:
    installation: Installation
    settings: Settings
    manager: ServiceManager
    release: Release | None
    """None: the version is in its folder already."""
    before: Path
    after: Path
    within_s: float
    """What each role has to be ready."""
    say: Say

    async def run(self, steps: Sequence[Step]) -> None:
        """The journal has to be held. Raises `WentBackError` after it has gone back."""
        journal = Journal(self.installation)
        entry = Entry(Stage.PREPARING, self.before, self.after, made=self.release is not None)
        failing_before = await failing_parts(self.settings)
        journal.write(entry)
        try:
            for step in steps:
                if isinstance(step, RemoveVersion):
                    continue
                self.say(step.says)
                if isinstance(step, Switch):
                    entry = self._prepare_switch(journal, entry)
                await self._do(step, failing_before)
                if isinstance(step, PutThere):
                    # Whole: kept for another try, whatever comes.
                    entry = replace(entry, made=False)
                    journal.write(entry)
        except BaseException as exc:
            troubles = await self._back(entry, exc)
            raise WentBackError(self._what_failed(exc, entry, troubles)) from exc
        journal.remove()
        self.installation.way_back.unlink(missing_ok=True)
        for step in steps:
            if isinstance(step, RemoveVersion):
                self.say(step.says)
                with contextlib.suppress(asyncio.CancelledError):
                    # There is nothing to go back from any more.
                    await _to_its_end(remove_version, step.folder)

    def _prepare_switch(self, journal: Journal, entry: Entry) -> Entry:
        """All that the way back takes is on the disk before anything is exchanged."""
        exchange_link(self.installation.way_back, self.before)
        switching = replace(entry, stage=Stage.SWITCHING)
        journal.write(switching)
        return switching

    async def _do(self, step: Step, failing_before: frozenset[str]) -> None:
        match step:
            case PutThere():
                assert self.release is not None, "the plan says so"
                await _to_its_end(self.release.put_into, self.after)
            case TakeUnits():
                await _to_its_end(self.manager.take_units, self.after)
            case BackUp():
                await self._back_up()
            case Migrate():
                await self._migrate()
            case Switch():
                exchange_link(self.installation.current, self.after)
            case Renew(_, role, unit):
                await self._renew(role, unit)
            case CheckHealth():
                await self._until_healthy(failing_before)
            case _:
                raise AssertionError(f"nobody knows how to do {step}")

    async def _back_up(self) -> None:
        if self.settings.backup_recipient is not None:
            file, _ = await back_up_everything(self.settings)
        else:
            folder = self.settings.home / DUMPS
            folder.mkdir(mode=0o700, exist_ok=True)
            file = folder / f"before-upgrade-{system_clock.now():%Y%m%dT%H%M%SZ}.dump"
            await backup(self.settings, file)
            remove_old_dumps(folder)
        self.say(f"Wrote it to {file}.")

    async def _migrate(self) -> None:
        """By the new version, which brings its migrations; all of them are one transaction."""
        process = await asyncio.create_subprocess_exec(
            str(self.after / "bin/moor"), "migrate", "--without-dump",
            env=environment_for(self.installation),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            close_fds=False,  # Or the lock would be free while it still runs.
        )  # fmt: skip
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise SetupError(f"The migration failed: {output.decode(errors='replace').strip()[-800:]}")

    async def _renew(self, role: str, unit: str) -> None:
        since_s = system_clock.now().timestamp()
        restart = self.manager.reload if role == "keep" else self.manager.restart
        await _to_its_end(restart, unit)
        gate = Gate(self.installation, self.manager, self.within_s)
        await gate.until_serving(role, unit, self.after, since_s)

    async def _until_healthy(self, failing_before: frozenset[str]) -> None:
        deadline = system_clock.monotonic() + self.within_s
        while new := await failing_parts(self.settings) - failing_before:
            if system_clock.monotonic() >= deadline:
                raise NotServingError(f"Since the upgrade these fail: {', '.join(sorted(new))}.")
            await asyncio.sleep(_ASK_EVERY_S)

    async def _back(self, entry: Entry, exc: BaseException) -> list[str]:
        self.say(f"That failed: {_words(exc)} Going back to {self.before.name} …")
        gate = Gate(self.installation, self.manager, self.within_s)
        return await go_back(self.installation, entry, gate, self.say)

    def _what_failed(self, exc: BaseException, entry: Entry, troubles: Sequence[str]) -> str:
        words = [f"{self.before.name} runs again. The upgrade failed: {_words(exc)}"]
        if troubles:
            words = [
                f"{self.before.name} is back, but not all of it serves: {' '.join(troubles)} The upgrade failed: {_words(exc)}"
            ]
        if entry.stage is Stage.SWITCHING:
            words.append("The tables stay extended. The previous version works with them.")
        return " ".join([*words, "No rows were lost. See the roles' logs: journalctl -u 'moorage*'."])


async def _to_its_end(work: Callable[..., None], *arguments: object) -> None:
    """Whatever comes meanwhile: nothing is undone beside it."""
    doing = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


def _words(exc: BaseException) -> str:
    if isinstance(exc, MoorageError):
        return exc.message
    if isinstance(exc, subprocess.TimeoutExpired):
        return f"{exc.cmd[0]} did not end within {exc.timeout:.0f} s."
    if isinstance(exc, asyncio.CancelledError):
        return "it was interrupted."
    return f"{exc}."
