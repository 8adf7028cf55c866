"""Machines: what the operator says about them, and what they say themselves."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.authentication import TheOperator
from moorage.kit.errors import NotAuthenticatedError, NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.web import STRANGERS_BODY_BYTES, TheKeyring, TheSession, TheSettings, takes_body
from moorage.machines import repository, service
from moorage.machines.join_script import bundle, join_command, join_script
from moorage.machines.models import JoinTokenRow, MachineRow
from moorage.machines.schemas import (
    HubRead,
    Join,
    MachineAdded,
    MachineRead,
    MachineWish,
    Membership,
    NewKey,
    TunnelRead,
)
from moorage.machines.states import Happening, MachineState, Speaker
from moorage.machines.words import condition
from moorage.tunnel.addresses import DOOR_PORT
from moorage.tunnel.peers import HubEnd

router = APIRouter(tags=["machines"])


async def _count_replicas(request: Request) -> service.CountReplicas:
    """Replicas are none of a machine's business: who counts them is for the role to say."""
    count: service.CountReplicas = request.app.state.count_replicas
    return count


def _file(media_type: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": "A file.", "content": content}}


@router.get("/operator/machines")
async def list_machines(
    _: TheOperator, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[MachineRead]:
    """Machines that joined or may join; newest first."""
    rows = await repository.list_machines(session, paging)
    deadlines = await repository.join_deadlines(session, [row.id for row in rows])
    shown = [_shown(row, deadlines.get(row.id)) for row in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/operator/machines", status_code=201)
async def add_machine(
    body: MachineWish, operator: TheOperator, session: TheSession, settings: TheSettings
) -> MachineAdded:
    """Answers with one command, to be run on the machine within 30 minutes."""
    script = await asyncio.to_thread(join_script, settings.api_base_url)
    row, token_row, token = await service.add(session, settings, operator.id, body.name, body.infrastructure)
    return _added(settings, script, row.id, token_row, token)


@router.post("/machines/{machine_id}/command")
async def new_command(
    machine_id: str, operator: TheOperator, session: TheSession, settings: TheSettings
) -> MachineAdded:
    """Another command for a machine that has not joined; the one before works no longer."""
    script = await asyncio.to_thread(join_script, settings.api_base_url)
    token_row, token = await service.new_command(session, settings, operator.id, machine_id)
    return _added(settings, script, machine_id, token_row, token)


@router.get("/operator/tunnel")
async def read_tunnel(_: TheOperator, session: TheSession) -> TunnelRead:
    """Whether machines can dial this installation, and if not, why."""
    return TunnelRead(**vars(await service.tunnel(session)))


@router.get("/machines/join.sh", response_class=Response, responses=_file("text/x-shellscript"))
async def read_join_script(settings: TheSettings) -> Response:
    """What the command runs; it holds no secret."""
    script = await asyncio.to_thread(join_script, settings.api_base_url)
    return Response(script, media_type="text/x-shellscript")


@router.get("/machines/moorage.tar.gz", response_class=Response, responses=_file("application/gzip"))
async def read_bundle() -> Response:
    """This version's sources, which machines run."""
    return Response(await asyncio.to_thread(bundle), media_type="application/gzip")


@router.post("/machines/join")
@takes_body(2 * STRANGERS_BODY_BYTES, for_strangers=True)
async def join(body: Join, session: TheSession, keyring: TheKeyring, settings: TheSettings) -> Membership:
    """A machine joins, with the token of its command. Repeatable by the same machine until the token runs out."""
    row, hubs = await service.join(session, keyring, settings, body)
    return await _membership(session, settings, row, hubs)


async def _recognized(machine_id: str, request: Request, session: TheSession) -> MachineRow:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise NotAuthenticatedError("Send the machine's secret as 'Authorization: Bearer …'.")
    return await service.recognized(session, machine_id, secret.strip())


TheMachine = Annotated[MachineRow, Depends(_recognized)]


@router.get("/machines/{machine_id}/membership")
async def read_membership(machine: TheMachine, session: TheSession, settings: TheSettings) -> Membership:
    """For the machine itself: its state, and the hubs that it dials."""
    return await _membership(session, settings, machine, await repository.live_hubs(session))


@router.put("/machines/{machine_id}/key", status_code=204)
async def renew_key(body: NewKey, machine: TheMachine, session: TheSession) -> None:
    """The machine's new key in the tunnel; the old one opens nothing within a second or two."""
    await service.renew_key(session, machine.id, body.public_key)


@router.post("/machines/{machine_id}/leave", status_code=204)
async def leave(machine: TheMachine, session: TheSession, keyring: TheKeyring, settings: TheSettings) -> None:
    """The machine itself goes, whatever runs there."""
    await service.say(
        session,
        keyring,
        settings,
        machine.id,
        Happening.LEAVE,
        speaker=Speaker.MACHINE,
        actor_id=machine.id,
    )


@router.get("/machines/{machine_id}")
async def read_machine(machine_id: str, _: TheOperator, session: TheSession) -> MachineRead:
    row = await repository.find_machine(session, machine_id)
    if row is None:
        raise NotFoundError("There is no such machine.")
    return await _read(session, row)


@router.post("/machines/{machine_id}/pause")
async def pause(
    machine_id: str, operator: TheOperator, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    """Nothing new starts there; what runs stays."""
    return await _said(session, keyring, settings, machine_id, Happening.PAUSE, operator.id)


@router.post("/machines/{machine_id}/resume")
async def resume(
    machine_id: str, operator: TheOperator, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    return await _said(session, keyring, settings, machine_id, Happening.RESUME, operator.id)


@router.post("/machines/{machine_id}/drain")
async def drain(
    machine_id: str, operator: TheOperator, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> MachineRead:
    """What runs there moves to other machines; nothing new starts."""
    return await _said(session, keyring, settings, machine_id, Happening.DRAIN, operator.id)


@router.delete("/machines/{machine_id}", status_code=204)
async def remove(
    machine_id: str,
    operator: TheOperator,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    count_replicas: Annotated[service.CountReplicas, Depends(_count_replicas)],
    force: bool = False,
) -> None:
    """For good. One on which replicas run is drained first, or forced."""
    await _said(
        session,
        keyring,
        settings,
        machine_id,
        Happening.REMOVE,
        operator.id,
        forced=force,
        count_replicas=count_replicas,
    )


async def _said(
    session: AsyncSession,
    keyring: TheKeyring,
    settings: Settings,
    machine_id: str,
    happening: Happening,
    actor_id: str,
    *,
    forced: bool = False,
    count_replicas: service.CountReplicas | None = None,
) -> MachineRead:
    row = await service.say(
        session,
        keyring,
        settings,
        machine_id,
        happening,
        speaker=Speaker.OPERATOR,
        actor_id=actor_id,
        forced=forced,
        count_replicas=count_replicas,
    )
    return await _read(session, row)


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
        hubs=[
            HubRead(id=hub.hub_id, address=hub.address, public_key=hub.public_key, endpoint=hub.endpoint)
            for hub in hubs
        ],
    )


def _added(
    settings: Settings, script: str, machine_id: str, token_row: JoinTokenRow, token: str
) -> MachineAdded:
    return MachineAdded(
        id=machine_id,
        token=token,
        command=join_command(settings.api_base_url, script, token),
        expires_at=token_row.expires_at,
    )


async def _read(session: AsyncSession, row: MachineRow) -> MachineRead:
    return _shown(row, (await repository.join_deadlines(session, [row.id])).get(row.id))


def _shown(row: MachineRow, joins_until: datetime | None) -> MachineRead:
    return MachineRead(
        id=row.id,
        name=row.name,
        infrastructure=row.infrastructure,
        state=MachineState(row.state),
        state_since=row.state_since,
        returns_as=service.life_of(row).before_loss,
        message=condition(service.life_of(row), has_joined=row.joined_at is not None),
        address=row.address,
        gpus=list(row.facts.get("gpus", ())),
        facts=row.facts,
        replicas=row.replicas,
        created_at=row.created_at,
        joins_until=joins_until,
        joined_at=row.joined_at,
        seen_at=row.seen_at,
    )
