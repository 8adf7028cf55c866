from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.containers.access import ContainerAccess, manageable_container, readable_container
from moorage.containers.doctor import repository, service
from moorage.containers.doctor.schemas import Diagnosis
from moorage.kit.web import TheSession

router = APIRouter(tags=["doctor"])


@router.post("/containers/{container_id}/doctor", summary="Diagnose a container's network", status_code=202)
async def diagnose_container(
    access: Annotated[ContainerAccess, Depends(manageable_container)],
    session: TheSession,
    response: Response,
) -> Diagnosis:
    """Tests the network from inside a replica. The result is at the same address within seconds. Answers 200 if a
    diagnosis is already under way."""
    row, is_new = await service.ask(session, access.actor, access.container)
    response.status_code = 202 if is_new else 200
    return Diagnosis.model_validate(row, from_attributes=True)


@router.get("/containers/{container_id}/doctor", summary="Get the last diagnosis")
async def get_diagnosis(
    access: Annotated[ContainerAccess, Depends(readable_container)], session: TheSession
) -> Diagnosis:
    """Returns which names resolve, what can be reached, what is blocked on purpose and what listens."""
    row = await repository.find(session, access.container.id)
    if row is None:
        return Diagnosis(state="never_asked")
    return Diagnosis.model_validate(row, from_attributes=True)
