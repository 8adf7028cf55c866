from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.containers.access import ContainerAccess, manageable_container
from moorage.containers.canaries import service
from moorage.containers.canaries.schemas import CanaryRequest
from moorage.containers.schemas import Container
from moorage.containers.shown import answer
from moorage.kit.web import TheSession, TheSettings

router = APIRouter(tags=["canaries"])
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]


@router.post("/containers/{container_id}/canary", summary="Change the canary's share", status_code=202)
async def change_canary(
    body: CanaryRequest, access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """Changes the share of the requests that the running canary gets. `POST …/draft/apply` starts a canary."""
    changed = await service.change_canary(session, access.actor, access.container.id, body)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/canary/promote", summary="Promote the canary", status_code=202)
async def promote_canary(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """The canary takes over from the other version, like a rolling update that has already proven itself."""
    changed = await service.promote_canary(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/canary/abort", summary="Abort the canary", status_code=202)
async def abort_canary(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """The canary gets no more requests and stops. The other version serves all of them. The draft is kept."""
    changed = await service.abort_canary(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)
