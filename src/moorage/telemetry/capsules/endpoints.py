from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.identity.authentication import TheActor
from moorage.kit.errors import NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.access import access_project
from moorage.organizations.permissions import Permission
from moorage.telemetry.capsules import repository
from moorage.telemetry.capsules.schemas import Capsule

router = APIRouter(tags=["capsules"])


@router.get("/containers/{container_id}/capsules", summary="List crash capsules")
async def list_capsules(
    container_id: str,
    actor: TheActor,
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[Capsule]:
    """Lists what Moorage recorded about replicas that ended badly, newest first. Records of a deleted container stay
    as long as its logs."""
    project_id = await repository.project_of(session, container_id)
    access = None
    if project_id is not None:
        access = await access_project(session, actor, project_id, Permission.CONTAINER_VIEW)
    if access is None:
        raise NotFoundError("There is no such container.")
    rows = await repository.list_capsules(session, container_id, paging)
    capsules = [
        Capsule.model_validate(
            {
                **row.content,
                "replica_id": row.replica_id,
                "container_id": row.container_id,
                "written_at": row.written_at,
            }
        )
        for row in rows
    ]
    return page_of(capsules, paging, lambda capsule: Position(capsule.written_at, capsule.replica_id))
