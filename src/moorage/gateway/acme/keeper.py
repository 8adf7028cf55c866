"""Keeps the certificate that an authority gives.

Purpose: the file that HAProxy serves certifies the names of the settings, and has a third of its time left.
Invariants: there is always a file; it is replaced whole; an authority that refused is left alone for a quarter of an hour, also by a
process that is started again.
When it fails: what is served stays as it is, and health says what the authority said. A look that cannot be made, on a full disk perhaps,
is made again a minute later; nobody is asked before it is written down.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from moorage.gateway.acme.certificate import (
    BROKEN_OFF,
    TRY_WITHIN,
    Asked,
    Held,
    Tried,
    first_certificate,
    given_by,
    has_its_key,
    may_try,
    read,
    trouble_with,
    wanted,
)
from moorage.gateway.acme.obtain import Order
from moorage.kit.clock import Clock
from moorage.kit.lasting import look_for_good
from moorage.kit.settings import Settings
from moorage.kit.whole_files import write_whole

log = structlog.get_logger()

LOOK_EVERY_S = 60.0


def begin_with_some_certificate(settings: Settings, now: datetime) -> None:
    """HAProxy does not start without one, nor with half of one."""
    path = settings.acme_certificate
    if not path.exists() or not has_its_key(path.read_bytes()):
        settings.acme_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, first_certificate(settings.certified_names, now), 0o600)


def asked_for(settings: Settings) -> Asked:
    return Asked(settings.certified_names, settings.acme_directory)


def last_try(folder: Path) -> Tried | None:
    try:
        told = json.loads(_record(folder).read_text())
        asked = Asked(tuple(told["names"]), told["directory"])
        return Tried(datetime.fromisoformat(told["at"]).astimezone(UTC), asked, told["trouble"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        # Worth a pause, and no more: nothing stops because of it.
        return None


@dataclass
class CertificateKeeper:
    settings: Settings
    clock: Clock

    async def run(self) -> None:
        await look_for_good("certificate", self.look, LOOK_EVERY_S, asyncio.Event())

    async def look(self) -> None:
        asked, now = asked_for(self.settings), self.clock.now()
        names = asked.names
        held = await asyncio.to_thread(self._held)
        tried = await asyncio.to_thread(last_try, self.settings.acme_dir)
        if not wanted(held, asked, now) or not may_try(tried, asked, now):
            return
        # Before the try: who is killed in it counts as one that failed.
        await self._note(Tried(now, asked, BROKEN_OFF))
        certificate, trouble = await self._obtained(asked)
        if trouble is not None:
            log.warning("certificate_not_given", names=names, trouble=trouble)
        else:
            whole = given_by(asked.directory, certificate)
            await asyncio.to_thread(write_whole, self.settings.acme_certificate, whole, 0o600)
            log.info("certificate_given", names=names)
            if wanted(given := read(whole.encode()), asked, now):
                assert given is not None, "it was looked at"
                trouble = f"what it gave ends at {given.ends_at:%Y-%m-%d %H:%M} UTC, which is too soon by this machine's clock"
        await self._note(Tried(now, asked, trouble))

    async def _obtained(self, asked: Asked) -> tuple[str, str | None]:
        settings = self.settings
        assert settings.acme_email is not None, "there is somebody to ask for"
        root = str(settings.acme_root) if settings.acme_root is not None else None
        order = Order(asked.names, settings.acme_email, asked.directory, root, str(settings.acme_dir))
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
            async with asyncio.timeout(TRY_WITHIN.total_seconds()):
                said, complained = await process.communicate()
        except TimeoutError:
            return "", f"the authority did not finish within {TRY_WITHIN.total_seconds():g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0:
            return said.decode(), trouble_with(said, asked.names)
        lines = complained.decode(errors="replace").strip().splitlines()
        return "", lines[-1][:500] if lines else "the authority issued no certificate"

    def _held(self) -> Held | None:
        try:
            return read(self.settings.acme_certificate.read_bytes())
        except FileNotFoundError:
            return None

    async def _note(self, tried: Tried) -> None:
        at = tried.at.astimezone(UTC).isoformat()
        told = {"at": at, **asdict(tried.asked), "trouble": tried.trouble}
        await asyncio.to_thread(write_whole, _record(self.settings.acme_dir), json.dumps(told), 0o600)


def _record(folder: Path) -> Path:
    return folder / "last-try.json"
