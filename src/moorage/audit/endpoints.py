import json
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from moorage.audit import repository
from moorage.audit.schemas import AuditRecord
from moorage.identity.authentication import TheOperator
from moorage.kit.csv import CSV_ANSWER, csv_answer, csv_lines
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.streams import StreamKind
from moorage.kit.web import TheDatabase, TheSession, TheSettings, TheStreams
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.operator.access import OrganizationOfAnybody
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["audit"])
Viewer = Annotated[OrganizationAccess, Depends(organization_with(Permission.AUDIT_VIEW))]

_COLUMNS = ("at", "actor", "actor_email", "action", "target", "details", "actor_name")


@router.get("/organizations/{organization_id}/audit", summary="List audit records")
async def list_audit(
    access: Viewer, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[AuditRecord]:
    """Lists who changed what in the organization, newest first: members, keys, projects, money, and what people and keys did to
    containers, also to those that are gone by now. What Moorage does to a container by itself is in its activity only."""
    found = await repository.list_audit(session, access.organization.id, paging)
    return page_of([_shown(one) for one in found], paging, _position)


@router.get("/operator/audit", summary="List the installation's audit records")
async def list_installation_audit(
    _: TheOperator, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[AuditRecord]:
    """Lists who changed what in the installation itself, such as prices, newest first."""
    found = await repository.list_audit(session, None, paging)
    return page_of([_shown(one) for one in found], paging, _position)


@router.get("/operator/organizations/{organization_id}/audit", summary="List an organization's audit records")
async def list_audit_of_anybody(
    organization: OrganizationOfAnybody,
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[AuditRecord]:
    """Lists who changed what in an organization and its containers, newest first, for the operator."""
    found = await repository.list_audit(session, organization.id, paging)
    return page_of([_shown(one) for one in found], paging, _position)


@router.get(
    "/organizations/{organization_id}/audit/export",
    summary="Export audit records",
    response_class=StreamingResponse,
    responses=CSV_ANSWER,
)
async def export_audit(
    access: Viewer, database: TheDatabase, settings: TheSettings, streams: TheStreams
) -> StreamingResponse:
    """Returns all records as CSV, newest first."""
    organization_id = access.organization.id

    async def read(page: PageRequest) -> list[AuditRecord]:
        async with database.reading() as session:
            return [_shown(one) for one in await repository.list_audit(session, organization_id, page)]

    lines = csv_lines(_COLUMNS, read, _cells, _position)
    stream = streams.take(StreamKind.DOWNLOADS, access.actor.shares_as, settings.downloads_per_person)
    return csv_answer(f"audit-{organization_id}.csv", lines, stream)


def _cells(record: AuditRecord) -> tuple[str, ...]:
    details = json.dumps(record.details, sort_keys=True)
    time, email = record.at.isoformat(), record.actor_email or ""
    name = record.actor_name or ""
    return time, record.actor, email, record.action, record.target, details, name


def _position(record: AuditRecord) -> Position:
    return Position(record.at, record.id)


def _shown(record: repository.Record) -> AuditRecord:
    return AuditRecord.model_validate(record, from_attributes=True)
