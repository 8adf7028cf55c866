from dataclasses import asdict

from fastapi import APIRouter

from moorage.identity.authentication import TheActor
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession
from moorage.organizations.access import access_project
from moorage.organizations.permissions import Permission
from moorage.telemetry.requests.held import phases, told, with_replica
from moorage.telemetry.requests.held_repository import find_held
from moorage.telemetry.requests.record import receipt
from moorage.telemetry.requests.repository import find_record
from moorage.telemetry.requests.schemas import Request

router = APIRouter(tags=["requests"])


@router.get("/requests/{request_id}")
async def get_request(request_id: str, actor: TheActor, session: TheSession) -> Request:
    """A request to an endpoint, by the id that its answer had in `X-Request-ID`."""
    record = await find_record(session, request_id)
    access = None
    if record is not None:
        access = await access_project(session, actor, record.project_id, Permission.CONTAINER_VIEW)
    if record is None or access is None:
        raise NotFoundError(
            "There is no record of this request. One appears a few seconds after the request has ended; of a busy "
            "container all failed requests are kept, but not all others."
        )
    found = await find_held(session, request_id)
    if found is None:
        return Request(**asdict(record), explanation=receipt(record))
    held, wake = found
    record = with_replica(record, held)
    return Request(
        **asdict(record),
        explanation=told(record, held, wake, receipt(record)),
        held_ms=held.held_ms,
        phases=phases(record, held, wake),
    )
