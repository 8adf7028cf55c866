"""Machines: what the operator says about them, and what they say themselves."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.authentication import TheOperator
from moorage.kit.database import database_now
from moorage.kit.errors import NotAuthenticatedError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.web import STRANGERS_BODY_BYTES, TheKeyring, TheSession, TheSettings, takes_body
from moorage.machines import repository, service
from moorage.machines.custody import Custody, custody_with
from moorage.machines.join_script import bundle, join_script, lent_join_script
from moorage.machines.models import MachineRow
from moorage.machines.schemas import (
    HubRead,
    Join,
    MachineAdded,
    MachineRead,
    MachineWish,
    Membership,
    NewKey,
    Pause,
    TunnelRead,
)
from moorage.machines.shown import script_for, shown, shown_all, shown_command
from moorage.machines.states import Happening, MachineState, Speaker
from moorage.organizations.permissions import Permission
from moorage.tunnel.addresses import DOOR_PORT
from moorage.tunnel.peers import HubEnd

router = APIRouter(tags=["machines"])
Manager = Annotated[Custody, Depends(custody_with(Permission.MACHINE_MANAGE))]


async def _count_replicas(request: Request) -> service.CountReplicas:
    """Replicas are none of a machine's business: who counts them is for the role to say."""
    count: service.CountReplicas = request.app.state.count_replicas
    return count


def _file(media_type: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": "A file.", "content": content}}


@router.get("/operator/machines", summary="List joined machines")
async def list_machines(
    _: TheOperator, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[MachineRead]:
    """Lists machines that joined or may join, newest first."""
    rows = await repository.list_machines(session, paging)
    return page_of(
        await shown_all(session, rows, for_operator=True),
        paging,
        lambda item: Position(item.created_at, item.id),
    )


@router.post("/operator/machines", summary="Add a machine", status_code=201)
async def add_machine(
    body: MachineWish, operator: TheOperator, session: TheSession, settings: TheSettings
) -> MachineAdded:
    """Returns a command. Run it on the machine within 30 minutes to make the machine join."""
    script = await script_for(settings, is_lent=False)
    row, token_row, token = await service.add(session, settings, operator.id, body.name)
    return shown_command(settings, script, row.id, token_row, token)


@router.post("/machines/{machine_id}/command", summary="Get another join command")
async def renew_join_command(custody: Manager, session: TheSession, settings: TheSettings) -> MachineAdded:
    """Returns another command for a machine that has not joined. The previous one stops working."""
    script = await script_for(settings, is_lent=custody.row.owner_organization_id is not None)
    token_row, token = await service.new_command(session, settings, custody.actor.id, custody.row.id)
    return shown_command(settings, script, custody.row.id, token_row, token)


@router.get("/operator/tunnel", summary="Show whether machines can join")
async def read_tunnel(_: TheOperator, session: TheSession) -> TunnelRead:
    """Returns whether machines can dial this installation, and if not, why."""
    return TunnelRead(**vars(await service.tunnel(session)))


@router.get(
    "/machines/join.sh",
    summary="Download the join script",
    response_class=Response,
    responses=_file("text/x-shellscript"),
)
async def read_join_script(settings: TheSettings) -> Response:
    """Returns the script that the join command runs. It holds no secret."""
    script = await asyncio.to_thread(join_script, settings.api_base_url)
    return Response(script, media_type="text/x-shellscript")


@router.get(
    "/machines/join-community.sh",
    summary="Download the join script for lent machines",
    response_class=Response,
    responses=_file("text/x-shellscript"),
)
async def read_community_join_script(settings: TheSettings) -> Response:
    """Returns the script that joins a lent machine. It explains what lending means before it asks."""
    script = await asyncio.to_thread(lent_join_script, settings)
    return Response(script, media_type="text/x-shellscript")


@router.get(
    "/machines/moorage.tar.gz",
    summary="Download this version's sources",
    response_class=Response,
    responses=_file("application/gzip"),
)
async def read_bundle() -> Response:
    """Returns the sources that machines run."""
    return Response(await asyncio.to_thread(bundle), media_type="application/gzip")


@router.post("/machines/join", summary="Join a machine")
@takes_body(2 * STRANGERS_BODY_BYTES, for_strangers=True)
async def join_machine(
    body: Join, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Membership:
    """The join command calls this with its token. The same machine may repeat the call until the token expires. It
    sends its keys and the secret for its later calls. The answer has its address and its hubs."""
    row, hubs = await service.join(session, keyring, settings, body)
    return await _membership(session, settings, row, hubs)


async def _recognized(machine_id: str, request: Request, session: TheSession) -> MachineRow:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise NotAuthenticatedError("Send the machine's secret as 'Authorization: Bearer …'.")
    return await service.recognized(session, machine_id, secret.strip())


TheMachine = Annotated[MachineRow, Depends(_recognized)]


@router.get("/machines/{machine_id}/membership", summary="Read a machine's membership")
async def read_membership(machine: TheMachine, session: TheSession, settings: TheSettings) -> Membership:
    """Returns the machine's own state and the hubs that it dials."""
    return await _membership(session, settings, machine, await repository.live_hubs(session))


@router.put("/machines/{machine_id}/key", summary="Renew a machine's key", status_code=204)
async def renew_key(body: NewKey, machine: TheMachine, session: TheSession) -> None:
    """Replaces the machine's key in the tunnel. The old key stops working within a second or two."""
    await service.renew_key(session, machine.id, body.public_key)


@router.post("/machines/{machine_id}/leave", summary="Leave the installation", status_code=204)
async def leave_installation(
    machine: TheMachine, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> None:
    """Removes the machine for good, whatever runs there. Moorage replaces its replicas elsewhere."""
    await service.say(
        session,
        keyring,
        settings,
        machine.id,
        Happening.LEAVE,
        speaker=Speaker.MACHINE,
        actor_id=machine.id,
    )


@router.get("/machines/{machine_id}", summary="Get a machine")
async def read_machine(
    custody: Annotated[Custody, Depends(custody_with(Permission.MACHINE_VIEW))], session: TheSession
) -> MachineRead:
    """Returns its state and the reason for it, its GPUs, its replicas and when it was last seen."""
    return await shown(session, custody.row, for_operator=custody.speaker is Speaker.OPERATOR)


@router.post("/machines/{machine_id}/pause", summary="Pause a machine")
async def pause_machine(
    custody: Manager,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    body: Pause | None = None,
) -> MachineRead:
    """Starts no new replicas on the machine. Those that run stay. With `until` the pause ends by itself."""
    until = body.until if body is not None else None
    if until is not None:
        service.check_until(until, await database_now(session))
    return await _said(session, keyring, settings, custody, Happening.PAUSE, until=until)


@router.post("/machines/{machine_id}/resume", summary="Resume a machine")
async def resume_machine(
    custody: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    """Ends a pause or a drain, so that replicas may start on the machine again."""
    return await _said(session, keyring, settings, custody, Happening.RESUME)


@router.post("/machines/{machine_id}/drain", summary="Drain a machine")
async def drain_machine(
    custody: Manager, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    """Moves the machine's replicas to other machines and starts no new ones. Each replica serves until its successor
    does."""
    return await _said(session, keyring, settings, custody, Happening.DRAIN)


@router.delete("/machines/{machine_id}", summary="Remove a machine", status_code=204)
async def remove_machine(
    custody: Manager,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    count_replicas: Annotated[service.CountReplicas, Depends(_count_replicas)],
    force: bool = False,
) -> None:
    """Removes the machine for good. If it runs replicas, drain it first or set `force`; then they are cut off and
    replaced."""
    await _said(
        session, keyring, settings, custody, Happening.REMOVE, forced=force, count_replicas=count_replicas
    )


async def _said(
    session: AsyncSession,
    keyring: TheKeyring,
    settings: Settings,
    custody: Custody,
    happening: Happening,
    *,
    forced: bool = False,
    count_replicas: service.CountReplicas | None = None,
    until: datetime | None = None,
) -> MachineRead:
    row = await service.say(
        session,
        keyring,
        settings,
        custody.row.id,
        happening,
        speaker=custody.speaker,
        actor_id=custody.actor.id,
        forced=forced,
        count_replicas=count_replicas,
        until=until,
    )
    return await shown(session, row, for_operator=custody.speaker is Speaker.OPERATOR)


async def _membership(
    session: AsyncSession, settings: Settings, row: MachineRow, hubs: list[HubEnd]
) -> Membership:
    assert row.name is not None, "it has joined"
    assert row.address is not None, "it has joined"
    assert row.port is not None, "it has joined"
    return Membership(
        id=row.id,
        name=row.name,
        state=MachineState(row.state),
        message=row.message,
        installation_id=await repository.installation_id(session),
        address=row.address,
        port=row.port,
        door_port=DOOR_PORT,
        replica_ports=settings.replica_port_range,
        infrastructure="community" if row.owner_organization_id is not None else "operator",
        allow_runc=settings.allow_runc and row.owner_organization_id is not None,
        hubs=[
            HubRead(id=hub.hub_id, address=hub.address, public_key=hub.public_key, endpoint=hub.endpoint)
            for hub in hubs
        ],
    )
