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


@router.post("/containers/{container_id}/canary", status_code=202)
async def change_canary(
    body: CanaryRequest, access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """Another share of the requests for the canary that is under way. One begins with `POST …/draft/apply`."""
    changed = await service.change_canary(session, access.actor, access.container.id, body)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/canary/promote", status_code=202)
async def promote_canary(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """It takes over: the rest of an update with `rolling`, in which nothing has to be proven any more."""
    changed = await service.promote_canary(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/canary/abort", status_code=202)
async def abort_canary(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """It gets no more requests and goes; what served beside it serves all of them. The draft is kept."""
    changed = await service.abort_canary(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)
