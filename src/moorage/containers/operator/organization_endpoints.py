"""An organization's containers, for the operator: how they are and what they cost, never what is in them."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from moorage.catalog.repository import list_instance_types
from moorage.containers.operator.organization_repository import SeenContainer, list_containers_of
from moorage.containers.prices import prices_in
from moorage.containers.schemas import ReplicaCounts
from moorage.containers.sleep.state import is_asleep
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import ContainerState
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheSession
from moorage.organizations.operator.access import OrganizationOfAnybody

router = APIRouter(tags=["operator"])


class OperatorContainer(BaseModel):
    id: str
    name: str
    project_id: str
    project_name: str
    state: ContainerState
    state_since: datetime
    reason: str | None
    asleep: bool
    instance_type: str
    replicas: ReplicaCounts
    price_per_hour_microusd: int
    """Of one replica; where it takes machines of either kind, of the dearer."""
    created_at: datetime


@router.get(
    "/operator/organizations/{organization_id}/containers", summary="List an organization's containers"
)
async def list_organization_containers(
    organization: OrganizationOfAnybody,
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[OperatorContainer]:
    """Lists what an organization runs, newest first: names, states and prices, not settings, logs or secrets."""
    catalogue = await list_instance_types(session)
    found = await list_containers_of(session, organization.id, paging)

    def shown(seen: SeenContainer) -> OperatorContainer:
        row, settings = seen.row, ContainerSettings.from_json(seen.row.settings)
        asleep = is_asleep(row) and row.state == ContainerState.RUNNING
        return OperatorContainer(
            id=row.id,
            name=row.name,
            project_id=row.project_id,
            project_name=seen.project_name,
            state=ContainerState(row.state),
            state_since=row.state_since,
            reason=row.reason,
            asleep=asleep,
            instance_type=row.instance_type,
            replicas=ReplicaCounts(desired=0 if row.asleep_since else row.desired_replicas, ready=seen.ready),
            price_per_hour_microusd=prices_in(catalogue, settings).most_microusd,
            created_at=row.created_at,
        )

    return page_of([shown(one) for one in found], paging, lambda item: Position(item.created_at, item.id))
