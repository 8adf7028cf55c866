from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from moorage.containers.replica_limits import repository, service
from moorage.containers.replica_limits.models import ReplicaLimitRequestRow
from moorage.containers.replica_limits.schemas import (
    Decision,
    OperatorReplicaLimitRequest,
    ReplicaLimitRequest,
    ReplicaLimitRequestWrite,
)
from moorage.containers.replica_limits.service import Found
from moorage.identity.authentication import TheOperator
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheSession
from moorage.organizations.access import ProjectAccess, project_with
from moorage.organizations.models import ProjectRow
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["replica-limits"])
Paging = Annotated[PageRequest, Depends(page_request)]


async def _asked(approval_id: str, _: TheOperator, session: TheSession) -> Found:
    return await service.find_request(session, approval_id)


Asked = Annotated[Found, Depends(_asked)]


@router.get("/projects/{project_id}/replica-limit-requests", summary="List replica limit requests")
async def list_limit_requests(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_VIEW))],
    session: TheSession,
    paging: Paging,
) -> Page[ReplicaLimitRequest]:
    """Lists the project's requests to the operator with the answers, newest first."""
    rows = await repository.list_of_project(session, access.project.id, paging)
    items = [ReplicaLimitRequest.model_validate(row, from_attributes=True) for row in rows]
    return page_of(items, paging, lambda item: Position(item.created_at, item.id))


@router.post(
    "/projects/{project_id}/replica-limit-requests", summary="Request a higher replica limit", status_code=201
)
async def request_limit(
    body: ReplicaLimitRequestWrite,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_MANAGE))],
    session: TheSession,
) -> ReplicaLimitRequest:
    """Asks the operator before you deploy. A deployment over the limit asks by itself."""
    row = await service.request_limit(session, access.actor, access.project, body.replicas, body.note)
    return ReplicaLimitRequest.model_validate(row, from_attributes=True)


@router.get("/operator/replica-limit-requests", summary="List all replica limit requests")
async def list_all_limit_requests(
    _: TheOperator,
    session: TheSession,
    paging: Paging,
    state: Literal["pending", "approved", "refused", "withdrawn"] | None = None,
) -> Page[OperatorReplicaLimitRequest]:
    """Lists the requests of all projects, newest first."""
    items = [_for_operator(*found) for found in await repository.list_all(session, state, paging)]
    return page_of(items, paging, lambda item: Position(item.created_at, item.id))


@router.post(
    "/operator/replica-limit-requests/{approval_id}/approve", summary="Approve a replica limit request"
)
async def approve_limit_request(
    asked: Asked,
    operator: TheOperator,
    session: TheSession,
    clock: TheClock,
    body: Decision | None = None,
) -> OperatorReplicaLimitRequest:
    """Raises the project's limit. A container that waits for it starts."""
    answer = body.answer if body is not None else None
    return _for_operator(
        *await service.decide(session, operator, asked, approve=True, answer=answer, clock=clock)
    )


@router.post(
    "/operator/replica-limit-requests/{approval_id}/refuse", summary="Refuse a replica limit request"
)
async def refuse_limit_request(
    asked: Asked,
    operator: TheOperator,
    session: TheSession,
    clock: TheClock,
    body: Decision | None = None,
) -> OperatorReplicaLimitRequest:
    """Refuses the request. A container that waits for it fails with `replica_limit_refused` and your answer."""
    answer = body.answer if body is not None else None
    return _for_operator(
        *await service.decide(session, operator, asked, approve=False, answer=answer, clock=clock)
    )


def _for_operator(row: ReplicaLimitRequestRow, project: ProjectRow) -> OperatorReplicaLimitRequest:
    shown = ReplicaLimitRequest.model_validate(row, from_attributes=True)
    return OperatorReplicaLimitRequest(
        **shown.model_dump(),
        organization_id=project.organization_id,
        decided_by=row.decided_by,
        current_limit=project.replica_limit,
    )
