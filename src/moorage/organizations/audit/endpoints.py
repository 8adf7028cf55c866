import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from moorage.identity.authentication import TheOperator
from moorage.kit.csv import csv_line
from moorage.kit.database import Database
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheDatabase, TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.audit import repository
from moorage.organizations.audit.schemas import AuditRecord
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["audit"])
Viewer = Annotated[OrganizationAccess, Depends(organization_with(Permission.AUDIT_VIEW))]

_COLUMNS = ("at", "actor", "actor_email", "action", "target", "details")
_ROWS_AT_ONCE = 1000


@router.get("/organizations/{organization_id}/audit")
async def list_audit(
    access: Viewer, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[AuditRecord]:
    """Who changed what, newest first."""
    found = await repository.list_audit(session, access.organization.id, paging)
    return page_of([_shown(one) for one in found], paging, lambda item: Position(item.at, item.id))


@router.get("/operator/audit")
async def list_installation_audit(
    _: TheOperator, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[AuditRecord]:
    """Who changed what of the installation itself, such as prices; newest first."""
    found = await repository.list_audit(session, None, paging)
    return page_of([_shown(one) for one in found], paging, lambda item: Position(item.at, item.id))


@router.get(
    "/organizations/{organization_id}/audit/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/csv": {}}}},
)
async def export_audit(access: Viewer, database: TheDatabase) -> StreamingResponse:
    """All of it as CSV, newest first."""
    name = f"audit-{access.organization.id}.csv"
    return StreamingResponse(
        _lines(database, access.organization.id),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _lines(database: Database, organization_id: str) -> AsyncIterator[str]:
    """Page by page, so that no transaction waits for a slow reader."""
    yield csv_line(_COLUMNS)
    after: Position | None = None
    while True:
        async with database.reading() as session:
            found = await repository.list_audit(session, organization_id, PageRequest(_ROWS_AT_ONCE, after))
        for shown in map(_shown, found[:_ROWS_AT_ONCE]):
            details = json.dumps(shown.details, sort_keys=True)
            time, email = shown.at.isoformat(), shown.actor_email or ""
            yield csv_line((time, shown.actor, email, shown.action, shown.target, details))
            after = Position(shown.at, shown.id)
        if len(found) <= _ROWS_AT_ONCE:
            return


def _shown(entry: repository.Entry) -> AuditRecord:
    row, email = entry
    return AuditRecord(
        id=row.id,
        at=row.at,
        actor=row.actor,
        actor_email=email,
        action=row.action,
        target=row.target,
        details=row.details,
    )
