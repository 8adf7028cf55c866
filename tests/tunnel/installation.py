"""An installation in a place: the API behind TLS, the hub, the door and the reconciler, on a real database."""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from sqlalchemy import text

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.kit.clock import SystemClock, system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener
from moorage.kit.settings import Settings
from moorage.machines.door import Door
from moorage.machines.hub import TunnelHub
from moorage.machines.reconciler import MachinesReconciler
from moorage.outbound.pulls.proxy import PullProxy
from moorage.reconcile.lease import LeaseKeeper
from moorage.tunnel.keys import new_private_key, public_key_of
from tests.certificates import write_certificate
from tests.tunnel.places import Place
from tests.tunnel.town import HUB_PUBLIC

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
PORT = 8443
URL = f"https://{HUB_PUBLIC}:{PORT}"


class HastyClock(SystemClock):
    """So much later than it is."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@dataclass
class InstallationInPlace:
    place: Place
    settings: Settings
    database: Database
    hub: TunnelHub
    door: Door
    reconciler: MachinesReconciler
    clock: HastyClock
    certificate: Path
    server: uvicorn.Server

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """As the operator."""
        return self.place.do(self._ask(method, path, body))

    def look(self) -> None:
        """What its roles do by themselves every few seconds."""
        self.place.do(self._look())

    def let_a_minute_pass(self) -> None:
        """Since keys were renewed, which they are once in a minute at most; and since a machine was lost or came back."""
        self.place.do(self._let_a_minute_pass())

    def know_an_older_key(self, machine_id: str) -> None:
        """As an installation does that was restored from a backup."""
        self.place.do(self._know_an_older_key(machine_id, public_key_of(new_private_key())))

    def machine(self, machine_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/machines/{machine_id}").json()
        return found

    def end(self) -> None:
        self.place.do(self._end())

    async def _ask(self, method: str, path: str, body: Any) -> httpx.Response:
        key = self.settings.operator_key_file.read_text().strip()
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(verify=trusted, timeout=60, trust_env=False) as client:
            return await client.request(method, f"{URL}/api/v1{path}", json=body, headers=headers)

    async def _look(self) -> None:
        await self.hub.look()
        await self.door.look()
        async with self.database.transaction() as session:
            await session.execute(text("UPDATE leases SET expires_at = now() - interval '1 second'"))
        lease = await LeaseKeeper(self.database, "machines", "test", system_clock).acquire()
        assert lease is not None
        self.clock.ahead_s += 6
        due = await self.reconciler.due(10)
        for machine_id in due.keys:
            await self.reconciler.reconcile(machine_id, lease)

    async def _let_a_minute_pass(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE machines SET key_renewed_at = key_renewed_at - interval '1 minute', "
                    "untold_since = untold_since - interval '1 minute'"
                )
            )

    async def _know_an_older_key(self, machine_id: str, public_key: str) -> None:
        async with self.database.transaction() as session:
            older = text("UPDATE machines SET public_key = :key, key_renewed_at = NULL WHERE id = :id")
            await session.execute(older, {"key": public_key, "id": machine_id})

    async def _end(self) -> None:
        self.server.should_exit = True
        await self.door.pulls.__aexit__(None, None, None)
        await self.database.close()


def installed(place: Place, folder: Path, dsn: str) -> InstallationInPlace:
    certificate = folder / "certificate.pem"
    write_certificate(certificate, HUB_PUBLIC)
    settings = Settings(home=folder / "home", public_url=URL, api_share_percent=100)
    for made in (settings.home, settings.run_dir, settings.log_dir):
        made.mkdir(parents=True)

    async def start() -> InstallationInPlace:
        database = Database(dsn, pool_size=5)
        async with database.transaction() as session:
            await bootstrap(session, settings)
        config = uvicorn.Config(
            create_app(settings, Database(dsn, pool_size=5), KEYRING),
            host=HUB_PUBLIC,
            port=PORT,
            ssl_certfile=str(certificate),
            log_level="warning",
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            assert not serving.done(), serving
            await asyncio.sleep(0.02)
        pulls = PullProxy(
            system_clock, allowed_registries=(), max_image_bytes=2**30, pulls_per_organization=1
        )
        await pulls.__aenter__()
        clock = HastyClock()
        return InstallationInPlace(
            place,
            settings,
            database,
            TunnelHub("gtw_test", database, Listener(dsn), settings, system_clock),
            Door(database, pulls),
            MachinesReconciler(database, KEYRING, settings, clock),
            clock,
            certificate,
            server,
        )

    return place.do(start())
