"""Issues what is due: a receipt for each payment, and an invoice and a statement for each month that is over.

Purpose: every document has its number, without gaps and in the order in which it became due. Invariants: each is issued
once, and says what the ledger said. When it fails: the next pass finds it still missing.
"""

from dataclasses import dataclass, field

import structlog

from moorage.billing.invoices import repository
from moorage.billing.invoices.document import DocumentKind
from moorage.billing.invoices.repository import Missing
from moorage.billing.invoices.service import document_for, list_missing
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 30.0


@dataclass
class DocumentIssuer:
    database: Database
    settings: Settings
    clock: Clock
    name: str = "documents"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))

    async def due(self, limit: int) -> Due:
        left_s = self._next_s - self.clock.monotonic()
        if left_s > 0:
            return Due([], left_s)
        async with self.database.reading() as session:
            missing = await list_missing(session, limit)
        if missing:
            return Due([f"{one.kind} {one.organization_id} {one.subject}" for one in missing], None)
        self._next_s = self.clock.monotonic() + EVERY_S
        return Due([], EVERY_S)

    async def reconcile(self, key: str, lease: Lease) -> None:
        kind, organization_id, subject = key.split(" ")
        what = Missing(DocumentKind(kind), organization_id, subject)
        async with self.database.transaction() as session:
            await lease.guard(session)
            document = await document_for(session, self.settings, what)
            number = await repository.issue(session, what, document)
        log.info("document_issued", kind=kind, number=number, organization_id=organization_id)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + EVERY_S

    async def lead(self, lease: Lease) -> None:
        return None
