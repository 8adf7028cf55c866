from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.autoscaling import repository, service
from moorage.autoscaling.repository import ReplicaFacts
from moorage.autoscaling.schemas import (
    Autoscaling,
    AutoscalingDecision,
    ScaleRequest,
    ScalingPolicy,
    ScalingState,
)
from moorage.containers.access import ContainerAccess, manageable_container, readable_container
from moorage.containers.schemas import Container
from moorage.containers.shown import answer
from moorage.containers.spec import ContainerSettings, ResourceMode
from moorage.kit.pagination import PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession, TheSettings

router = APIRouter(tags=["autoscaling"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]


@router.get("/containers/{container_id}/autoscaling")
async def get_autoscaling(
    access: Readable, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Autoscaling:
    """How many replicas it has and why: the policy, the present, and every decision, newest first."""
    container = access.container
    scales = ContainerSettings.from_json(container.settings).resource_mode is ResourceMode.AUTOSCALING
    facts = (await repository.replica_facts(session, [container.id])).get(container.id, ReplicaFacts())
    startups_s = await repository.startup_times_s(session, [container.id])
    rows = await repository.list_decisions(session, container.id, paging)
    page = page_of(rows, paging, lambda row: Position(row.at, row.container_id))
    return Autoscaling(
        policy=ScalingPolicy(**asdict(repository.policy_of(container.settings))) if scales else None,
        replicas=ScalingState(
            desired=container.desired_replicas,
            ready=facts.ready,
            coming=facts.coming,
            startup_s=startups_s.get(container.id),
        ),
        items=[AutoscalingDecision.model_validate(row, from_attributes=True) for row in page.items],
        next_cursor=page.next_cursor,
    )


@router.post("/containers/{container_id}/scale", status_code=202)
async def scale_container(
    body: ScaleRequest, access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """Changes how it scales, also while it runs; 200 when nothing changed."""
    changed = await service.change_scaling(session, access.actor, access.container.id, body)
    return await answer(session, changed, settings, response)
