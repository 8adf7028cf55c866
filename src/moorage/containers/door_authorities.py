"""What signs for the doors of replicas, kept in Postgres: made when a controller starts that has a cluster, succeeded long before it
ends.

Its key is sealed like every secret, and leaves the database for nobody but whoever starts replicas. Gateways read the
certificates alone, and keep them in their files.
"""

import ssl
from dataclasses import dataclass, field

from moorage.containers import door_authority_repository as repository
from moorage.containers.models import DoorAuthorityRow
from moorage.engines.doors import Authority, new_authority, signing, successor_is_due, trusting
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.ids import InstallationId

_READ_EVERY_S = 60.0


@dataclass
class DoorAuthorities:
    """`engines.doors.Doors`."""

    database: Database
    keyring: Keyring
    installation_id: InstallationId
    clock: Clock
    _read: tuple[tuple[Authority, ...], ssl.SSLContext] | None = field(init=False, default=None)
    _read_at_s: float = field(init=False, default=float("-inf"))

    async def ensure(self) -> None:
        """Makes the first one, or the next. When a controller starts, and no reconciler does anything yet: nobody needs its lease."""
        found = await self._stored()
        if successor_is_due(found, self.clock.now()):
            await self._make(len(found) + 1)

    async def authority(self) -> Authority:
        found = signing((await self._known())[0], self.clock.now())
        if found is None:
            raise EngineError(
                "Nothing signs for the doors of replicas yet: the controller makes it when it starts."
            )
        return found

    async def trust(self) -> ssl.SSLContext:
        return (await self._known())[1]

    async def _known(self) -> tuple[tuple[Authority, ...], ssl.SSLContext]:
        now_s = self.clock.monotonic()
        if self._read is None or not self._read[0] or now_s - self._read_at_s >= _READ_EVERY_S:
            found = await self._stored()
            self._read = found, trusting("".join(one.certificate for one in found))
            self._read_at_s = now_s
        return self._read

    async def _stored(self) -> tuple[Authority, ...]:
        async with self.database.transaction() as session:
            return tuple(self._unsealed(row) for row in await repository.authorities(session))

    async def _make(self, number: int) -> None:
        made = new_authority(self.installation_id, self.clock.now())
        sealed = self.keyring.encrypt(made.key.encode(), _context(number))
        async with self.database.transaction() as session:
            await repository.add(session, number, made.made_at, made.certificate, sealed)

    def _unsealed(self, row: DoorAuthorityRow) -> Authority:
        key = self.keyring.decrypt(row.sealed_key, _context(row.number)).decode()
        return Authority(row.certificate, row.made_at, key)


def _context(number: int) -> str:
    return f"door_authorities.key:{number}"
