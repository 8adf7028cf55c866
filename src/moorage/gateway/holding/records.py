"""What became of requests that were held, for whoever asks about one of them.

They are stored every second, together. What Postgres does not take is kept, within bounds: the answers do not depend on it.
"""

from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import datetime

import structlog
from sqlalchemy.dialects.postgresql import insert

from moorage.kit.clock import Clock
from moorage.kit.database import Database, table_of
from moorage.kit.ids import GatewayId
from moorage.telemetry.requests.held_models import HeldRequestRow

log = structlog.get_logger()

STORE_EVERY_S = 1.0
_MOST_KEPT = 10_000
_AT_ONCE = 500


@dataclass
class HeldRecord:
    request_id: str
    container_id: str
    arrived_at: datetime
    places: int
    place: int = 0
    held_ms: int = 0
    replica_id: str | None = None
    code: str | None = None
    comments: int = 0


@dataclass
class HeldRecords:
    gateway_id: GatewayId
    database: Database
    clock: Clock
    _waiting: deque[HeldRecord] = field(init=False, default_factory=lambda: deque(maxlen=_MOST_KEPT))

    def add(self, record: HeldRecord) -> None:
        if record.request_id:
            self._waiting.append(record)

    async def run(self) -> None:
        while True:
            await self.clock.sleep(STORE_EVERY_S)
            try:
                await self.store()
            except Exception as exc:  # noqa: BLE001 - logged, and tried again
                log.warning("held_requests_not_stored", error=repr(exc), waiting=len(self._waiting))

    async def store(self) -> None:
        while self._waiting:
            some = [self._waiting[at] for at in range(min(len(self._waiting), _AT_ONCE))]
            rows = [{**asdict(one), "gateway_id": self.gateway_id} for one in some]
            async with self.database.transaction() as session:
                stored = insert(table_of(HeldRequestRow)).values(rows)
                await session.execute(stored.on_conflict_do_nothing())
            for one in some:
                if self._waiting and self._waiting[0] is one:
                    self._waiting.popleft()
