"""The pull proxy's door in the tunnel: open on each hub's address that is this machine's."""

import asyncio
from dataclasses import dataclass, field

import structlog

from moorage.kit.database import Database
from moorage.kit.lasting import look_for_good
from moorage.machines import repository
from moorage.outbound.pulls.proxy import PullProxy
from moorage.tunnel.addresses import DOOR_PORT

log = structlog.get_logger()

LOOK_EVERY_S = 5.0


@dataclass
class Door:
    database: Database
    pulls: PullProxy
    _open: set[str] = field(init=False, default_factory=set)

    async def run(self) -> None:
        """For good."""
        await look_for_good("door", self.look, LOOK_EVERY_S, asyncio.Event())

    async def look(self) -> None:
        async with self.database.reading() as session:
            addresses = await repository.hub_addresses(session)
        for address in addresses:
            if address in self._open:
                continue  # It outlives the interface, and is there again with it.
            try:
                await self.pulls.open_door(address, DOOR_PORT)
            except OSError as exc:
                log.debug("door_not_here", address=address, reason=exc.strerror)
                continue
            self._open.add(address)
            log.info("door_open", address=address, port=DOOR_PORT)
