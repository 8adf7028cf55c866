"""Machines that organizations lend: added by them, seen by them alone and by the operator, banned by the operator."""

from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.identity.authentication import TheOperator
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.machines import repository, service
from moorage.machines.custody import Custody, custody_with
from moorage.machines.schemas import Ban, LentMachineWish, MachineAdded, MachineRead
from moorage.machines.shown import script_for, shown, shown_all, shown_command
from moorage.machines.states import Happening, Speaker
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["machines"])


@router.get("/organizations/{organization_id}/machines", summary="List lent machines")
async def list_lent_machines(
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.MACHINE_VIEW))],
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[MachineRead]:
    """Lists machines that the organization lends, newest first, with the number of replicas on each, but never whose
    they are."""
    rows = await repository.list_machines(session, paging, access.organization.id)
    return page_of(
        await shown_all(session, rows, for_operator=False),
        paging,
        lambda item: Position(item.created_at, item.id),
    )


@router.post("/organizations/{organization_id}/machines", summary="Lend a machine", status_code=201)
async def lend_machine(
    body: LentMachineWish,
    access: Annotated[OrganizationAccess, Depends(organization_with(Permission.MACHINE_MANAGE))],
    session: TheSession,
    settings: TheSettings,
) -> MachineAdded:
    """Returns a command. Run it on the machine within 30 minutes to make the machine join. The operator must have
    opened the installation for lent machines."""
    row, token_row, token = await service.lend(
        session, settings, access.actor, body.name, access.organization.id
    )
    script = await script_for(settings, is_lent=True)
    return shown_command(settings, script, row.id, token_row, token)


@router.post("/machines/{machine_id}/reclaim", summary="Reclaim a machine")
async def reclaim_machine(
    custody: Annotated[Custody, Depends(custody_with(Permission.MACHINE_MANAGE))],
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
) -> MachineRead:
    """Empties the machine within 30 seconds for its owner's own use. Replicas move elsewhere; those that have not
    moved by then are ended. Resume it to lend it again."""
    row = await service.say(
        session,
        keyring,
        settings,
        custody.row.id,
        Happening.RECLAIM,
        speaker=custody.speaker,
        actor_id=custody.actor.id,
    )
    return await shown(session, row, for_operator=custody.speaker is Speaker.OPERATOR)


@router.post("/operator/machines/{machine_id}/ban", summary="Ban a machine")
async def ban_machine(
    machine_id: str,
    operator: TheOperator,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    body: Ban | None = None,
) -> MachineRead:
    """Cuts the machine off: its replicas are replaced elsewhere, and its end of the tunnel is closed. Its owner sees
    the reason."""
    row = await service.say(
        session,
        keyring,
        settings,
        machine_id,
        Happening.BAN,
        speaker=Speaker.OPERATOR,
        actor_id=operator.id,
        because=body.reason if body is not None else None,
    )
    return await shown(session, row, for_operator=True)


@router.post("/operator/machines/{machine_id}/unban", summary="Unban a machine")
async def unban_machine(
    machine_id: str, operator: TheOperator, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    """Lets the machine come back. It proves its hardware again before anything starts there."""
    row = await service.say(
        session,
        keyring,
        settings,
        machine_id,
        Happening.UNBAN,
        speaker=Speaker.OPERATOR,
        actor_id=operator.id,
    )
    return await shown(session, row, for_operator=True)
