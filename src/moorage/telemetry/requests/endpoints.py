from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime

from moorage.containers.access import ContainerAccess, readable_container
from moorage.identity.authentication import TheActor
from moorage.kit.database import database_now
from moorage.kit.errors import InvalidInputError, NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheDatabase, TheSession, TheSettings
from moorage.organizations.access import access_project
from moorage.organizations.permissions import Permission
from moorage.telemetry.requests.cost import span_of
from moorage.telemetry.requests.cost_repository import cost_of
from moorage.telemetry.requests.list_repository import LONGEST_BEFORE, RequestFilter, list_requests
from moorage.telemetry.requests.repository import find_record
from moorage.telemetry.requests.schemas import Cost, Request, RequestSummary
from moorage.telemetry.requests.service import receipt_of

router = APIRouter(tags=["requests"])

_Time = Annotated[AwareDatetime | None, Query()]


@router.get("/requests/{request_id}", summary="Get a request")
async def get_request(
    request_id: str, actor: TheActor, session: TheSession, settings: TheSettings
) -> Request:
    """Finds a request to an endpoint by the id in its answer's `X-Request-ID`, and explains where its time went.
    Everybody who may see its container may see it."""
    found = await find_record(session, request_id)
    access = None
    if found is not None:
        access = await access_project(session, actor, found[0].project_id, Permission.CONTAINER_VIEW)
    if found is None or access is None:
        raise NotFoundError(
            "There is no record of this request. A record appears a few seconds after the request ends. For "
            "a busy container, all failed requests are kept, but not all others."
        )
    record, gateway_id = found
    now = await database_now(session)
    return await receipt_of(session, record, gateway_id, kept_days=settings.log_retention_days, now=now)


async def _wanted(
    instance: Annotated[str | None, Query(pattern="^rep_[a-z2-7]{20}$")] = None,
    failed: bool = False,
    from_time: Annotated[_Time, Query(alias="from")] = None,
    to_time: Annotated[_Time, Query(alias="to")] = None,
    at: _Time = None,
) -> RequestFilter:
    try:
        return RequestFilter(_utc(from_time), _utc(to_time), _utc(at), instance, failed)
    except OverflowError as exc:  # the first or last day there is, or in a far time zone
        raise InvalidInputError("from, to or at is out of range.") from exc


@router.get("/containers/{container_id}/requests", summary="List requests")
async def list_container_requests(
    access: Annotated[ContainerAccess, Depends(readable_container)],
    session: TheSession,
    database: TheDatabase,
    wanted: Annotated[RequestFilter, Depends(_wanted)],
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[RequestSummary]:
    """Lists requests that have a record, newest first: all that failed and, for a busy container, some of the others.
    `from` is inclusive, `to` exclusive. `at` finds requests that were under way at a moment or had ended in the
    second before.
    """
    await session.commit()  # gives the connection back
    async with database.transaction() as searching:
        found = await list_requests(searching, access.container.id, wanted, paging)
    return page_of(found, paging, lambda one: Position(one.started_at, one.request_id))


@router.get("/containers/{container_id}/cost", summary="Get what requests cost")
async def get_cost(
    access: Annotated[ContainerAccess, Depends(readable_container)],
    session: TheSession,
    database: TheDatabase,
    settings: TheSettings,
    from_time: Annotated[_Time, Query(alias="from")] = None,
    to_time: Annotated[_Time, Query(alias="to")] = None,
) -> Cost:
    """Returns what the hours that began in a time range cost, divided by API key. Default: the last 24 hours.
    Requests are counted for as long as logs are kept; earlier hours are not covered. The price of each hour is
    divided by all requests that ended in it, whichever replica answered and however long they took. A key's cost is
    its requests' share. Hours in which no request ended are `idle`.
    """
    now = await database_now(session)
    await session.commit()  # gives the connection back
    span = span_of(now, from_time, to_time, settings.log_retention_days)
    async with database.transaction() as searching:
        return await cost_of(searching, access.container.id, span)


def _utc(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    # Beyond what is subtracted from it later.
    return (time.astimezone(UTC) - LONGEST_BEFORE) + LONGEST_BEFORE
