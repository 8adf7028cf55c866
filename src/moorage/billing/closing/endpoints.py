from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from moorage.billing.closing import service
from moorage.billing.closing.rules import obstacles
from moorage.billing.closing.schemas import DeletionObstacle, OrganizationDeletion
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["organizations"])
Remover = Annotated[OrganizationAccess, Depends(organization_with(Permission.ORGANIZATION_REMOVE))]


@router.get(
    "/organizations/{organization_id}/deletion", summary="Look at what deleting an organization takes"
)
async def preview_deletion(
    access: Remover, session: TheSession, settings: TheSettings
) -> OrganizationDeletion:
    """Returns what has to end before it can be deleted, and the money that would be given up."""
    found = await service.look(session, settings, access.organization)
    return OrganizationDeletion(
        obstacles=[DeletionObstacle(**asdict(one)) for one in obstacles(found)],
        given_up_microusd=found.given_up_microusd,
        paid_credit_microusd=found.paid_credit_microusd,
        given_credit_microusd=found.given_credit_microusd,
        earned_microusd=found.earned_microusd,
        called_off_transfers=list(found.pending_transfers),
    )


@router.delete("/organizations/{organization_id}", summary="Delete an organization", status_code=204)
async def delete_organization(
    access: Remover,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    name: Annotated[str, Query(description="The organization's name, typed to confirm.")] = "",
    gives_up_microusd: Annotated[
        int, Query(ge=0, description="How much money you give up with it. Less than there is is refused.")
    ] = 0,
) -> None:
    """Deletes it with its projects, keys, invitations and webhooks; nobody is its member any more. Refused while it has
    containers, lends machines, owes or is owed money. Invoices, ledger and audit log stay with the operator."""
    if name != access.organization.name:
        fields = (FieldError("name", "must be the name of the organization"),)
        raise InvalidInputError(
            "Repeat the organization's name to confirm that it and all of its projects shall go.",
            code="name_mismatch",
            fields=fields,
        )
    await service.delete_organization(
        session, keyring, settings, access.actor, access.organization, gives_up_microusd
    )
