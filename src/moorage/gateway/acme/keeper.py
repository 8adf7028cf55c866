"""Keeps the certificate that an authority gives.

Purpose: the file that HAProxy serves certifies the names of the settings, and has a third of its time left.
Invariants: there is always a file; it is replaced whole; an authority that refused is left alone for a quarter of an hour, also by a
process that is started again.
When it fails: what is served stays as it is, and health says what the authority said.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from moorage.gateway.acme.certificate import Held, Tried, first_certificate, may_try, read, wanted
from moorage.gateway.acme.obtain import Order
from moorage.kit.clock import Clock
from moorage.kit.settings import Settings
from moorage.kit.whole_files import write_whole

log = structlog.get_logger()

LOOK_EVERY_S = 60.0
_WITHIN_S = 300.0


def begin_with_some_certificate(settings: Settings, now: datetime) -> None:
    """HAProxy does not start without one."""
    if not settings.acme_certificate.exists():
        settings.acme_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(settings.acme_certificate, first_certificate(settings.certified_names, now), 0o600)


def last_try(folder: Path) -> Tried | None:
    try:
        told = json.loads(_record(folder).read_text())
        return Tried(datetime.fromisoformat(told["at"]), tuple(told["names"]), told["trouble"])
    except FileNotFoundError:
        return None


@dataclass
class CertificateKeeper:
    settings: Settings
    clock: Clock

    async def run(self) -> None:
        while True:
            await self.look()
            await self.clock.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        names, now = self.settings.certified_names, self.clock.now()
        held = await asyncio.to_thread(self._held)
        tried = await asyncio.to_thread(last_try, self.settings.acme_dir)
        if not wanted(held, names, now) or not may_try(tried, names, now):
            return
        # Before the try: who is killed in it counts as one that failed.
        await self._note(Tried(now, names, "The last try was broken off."))
        certificate, trouble = await self._obtained(names)
        if trouble is not None:
            log.warning("certificate_not_given", names=names, trouble=trouble)
        else:
            await asyncio.to_thread(write_whole, self.settings.acme_certificate, certificate, 0o600)
            log.info("certificate_given", names=names)
        await self._note(Tried(now, names, trouble))

    async def _obtained(self, names: tuple[str, ...]) -> tuple[str, str | None]:
        settings = self.settings
        assert settings.acme_email is not None, "there is somebody to ask for"
        root = str(settings.acme_root) if settings.acme_root is not None else None
        order = Order(names, settings.acme_email, settings.acme_directory, root, str(settings.acme_dir))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "moorage.gateway.acme.obtain",
            order.as_argument(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_WITHIN_S):
                said, complained = await process.communicate()
        except TimeoutError:
            return "", f"the authority did not finish within {_WITHIN_S:g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0 and read(said) is not None:
            return said.decode(), None
        lines = complained.decode(errors="replace").strip().splitlines()
        return "", lines[-1][:500] if lines else "the authority issued no certificate"

    def _held(self) -> Held | None:
        try:
            return read(self.settings.acme_certificate.read_bytes())
        except FileNotFoundError:
            return None

    async def _note(self, tried: Tried) -> None:
        told = {**asdict(tried), "at": tried.at.astimezone(UTC).isoformat()}
        await asyncio.to_thread(write_whole, _record(self.settings.acme_dir), json.dumps(told), 0o600)


def _record(folder: Path) -> Path:
    return folder / "last-try.json"
