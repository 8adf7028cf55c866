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


@router.get("/organizations/{organization_id}/deletion", summary="Preview the deletion of an organization")
async def preview_deletion(
    access: Remover, session: TheSession, settings: TheSettings
) -> OrganizationDeletion:
    """Returns what must end before the organization can be deleted, and the money that would be given up."""
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
        int,
        Query(ge=0, description="The money that you give up with it. Less than what is there is refused."),
    ] = 0,
) -> None:
    """Deletes the organization with its projects, keys, invitations, webhooks and memberships. Refused while it has
    containers, lends machines, or owes or is owed money. The operator keeps invoices, ledger and audit log."""
    if name != access.organization.name:
        fields = (FieldError("name", "must be the name of the organization"),)
        raise InvalidInputError(
            "Send the organization's name to confirm that you delete it with all of its projects.",
            code="name_mismatch",
            fields=fields,
        )
    await service.delete_organization(
        session, keyring, settings, access.actor, access.organization, gives_up_microusd
    )
