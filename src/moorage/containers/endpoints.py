from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from moorage.catalog.repository import keep_instance_type, list_instance_types, list_nodes
from moorage.containers import repository, service
from moorage.containers.access import (
    ContainerAccess,
    manageable_container,
    readable_container,
    restartable_container,
    startable_container,
)
from moorage.containers.avoidance import AVOID_FOR
from moorage.containers.lent_machines_repository import lent_machines
from moorage.containers.preflight import look_ahead, proposal_json
from moorage.containers.prices import prices_in
from moorage.containers.schemas import (
    MOST_SETTINGS_BYTES,
    Activity,
    Container,
    ContainerCreate,
    ContainerPatch,
    FixRead,
    PreflightRequest,
    PreflightResult,
    ProposalResult,
    RegistryWrite,
    Replica,
    RestartRequest,
)
from moorage.containers.shown import answer, container_json, shown, shown_new
from moorage.containers.spec import ContainerSettings, RegistryProvider
from moorage.containers.states import Reason
from moorage.containers.validation import validated_image
from moorage.containers.verdict import Fix
from moorage.kit.errors import UnavailableError
from moorage.kit.fair_slots import FairSlots
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheClock, TheKeyring, TheSession, TheSettings, takes_body
from moorage.organizations.access import ProjectAccess, project_with
from moorage.organizations.permissions import Permission
from moorage.outbound.registry.credentials import RegistryCredentials

router = APIRouter(tags=["containers"])
Paging = Annotated[PageRequest, Depends(page_request)]
Readable = Annotated[ContainerAccess, Depends(readable_container)]
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]
Startable = Annotated[ContainerAccess, Depends(startable_container)]


def preflight_slots() -> FairSlots:
    """A registry may answer as slowly as it likes, and so may the server of its name: each holds a thread and sockets of
    ours meanwhile, so one person asks few at a time."""
    return FairSlots(40, 4, most_waiting=8, wait_s=10.0)


async def _preflights(request: Request) -> FairSlots:
    slots: FairSlots = request.app.state.preflights
    return slots


@router.post("/projects/{project_id}/containers", summary="Create a container", status_code=201)
@takes_body(MOST_SETTINGS_BYTES)
async def create_container(
    body: ContainerCreate,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_MANAGE))],
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
) -> Container:
    """Creates the container and starts it at once; watch its `state`. Moorage holds the first hour of each replica
    from the credit. Answers 202 if the operator must first approve that many replicas."""
    _kept = await keep_instance_type(session, body.resources.instance_type)
    row = await service.create_container(
        session, access.actor, access.project, body, keyring=keyring, settings=settings, clock=clock
    )
    response.headers["Location"] = f"/api/v1/containers/{row.id}"
    if row.reason == Reason.AWAITING_APPROVAL:
        response.status_code = 202
    return await shown_new(session, row, settings)


@router.post("/projects/{project_id}/containers/preflight", summary="Check an image")
@takes_body(MOST_SETTINGS_BYTES)
async def preflight(
    body: PreflightRequest,
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_MANAGE))],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    preflights: Annotated[FairSlots, Depends(_preflights)],
) -> PreflightResult:
    """Asks the registry whether the image exists, fits and can be pulled. Moorage pulls, stores and charges
    nothing."""
    image = validated_image(body.image, body.registry, settings)
    if body.registry.provider is RegistryProvider.LOCAL:
        message = "Moorage looks up a local image when the container starts."
        return PreflightResult(
            ok=True, message=message, image=image, port=body.port, proposal=proposal_json(image)
        )
    nodes = await list_nodes(session)
    await session.commit()
    if not nodes:
        raise UnavailableError(
            "No machine reports yet, so the architecture is unknown. Try again in a moment."
        )
    credentials = None
    if body.registry.username is not None:
        credentials = RegistryCredentials(body.registry.username, body.registry.password or "")
    # Any machine that takes replicas may run it; where none does for now, any at all.
    taking = [node for node in nodes if node.takes_replicas] or nodes
    async with preflights.taken(access.actor.shares_as):
        return await look_ahead(
            image,
            credentials,
            body.port,
            architectures=[one for one, _ in Counter(node.architecture for node in taking).most_common()],
            settings=settings,
            clock=clock,
        )


@router.get("/projects/{project_id}/containers/proposal", summary="Propose settings for an image")
async def propose_settings(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_VIEW))],
    settings: TheSettings,
    image: Annotated[str, Query(max_length=500)],
    provider: RegistryProvider = RegistryProvider.DOCKER_HUB,
) -> ProposalResult:
    """Returns the settings that a known model server of that name needs, without asking a registry. The pre-flight
    check also knows the image's ports."""
    return ProposalResult(
        proposal=proposal_json(validated_image(image, RegistryWrite(provider=provider), settings))
    )


@router.get("/projects/{project_id}/containers", summary="List containers")
async def list_containers(
    access: Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_VIEW))],
    session: TheSession,
    settings: TheSettings,
    paging: Paging,
) -> Page[Container]:
    """Lists the project's containers, newest first."""
    rows = await repository.list_containers(session, access.project.id, paging)
    ready = await repository.ready_counts(session, [row.id for row in rows])
    catalogue = await list_instance_types(session)
    items = [
        container_json(
            row,
            ready.get(row.id, 0),
            prices_in(catalogue, ContainerSettings.from_json(row.settings)),
            settings,
        )
        for row in rows
    ]
    return page_of(items, paging, lambda item: Position(item.created_at, item.id))


@router.get("/containers/{container_id}", summary="Get a container")
async def get_container(access: Readable, session: TheSession, settings: TheSettings) -> Container:
    """Returns its settings, with secrets masked, its state and the reason for it, and its endpoint URL."""
    return await shown(session, access.container, settings)


@router.patch("/containers/{container_id}", summary="Edit a stopped container")
@takes_body(MOST_SETTINGS_BYTES)
async def edit_container(
    body: ContainerPatch, access: Manageable, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Container:
    """Changes the settings of a container that is STOPPED or FAILED. Its next start uses them. For a running
    container, save a draft and apply it."""
    row = await service.edit_container(
        session, access.actor, access.container.id, body, keyring=keyring, settings=settings
    )
    return await shown(session, row, settings)


@router.delete("/containers/{container_id}", summary="Delete a container", status_code=202)
async def delete_container(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """The replicas finish their requests and stop; then the container is gone. Its logs and payments stay on record.
    Answers 200 if it is already being deleted."""
    changed = await service.delete_container(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/start", summary="Start a container", status_code=202)
async def start_container(
    access: Startable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """Starts the replicas and holds the price of an hour for each. The container becomes RUNNING when the first one
    is healthy. Answers 200 if it already runs."""
    changed = await service.start_container(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/stop", summary="Stop a container", status_code=202)
async def stop_container(
    access: Manageable, session: TheSession, settings: TheSettings, response: Response
) -> Container:
    """The replicas finish their requests and stop. Paid hours are not refunded; a start within them uses them.
    Answers 200 if it is already stopped."""
    changed = await service.stop_container(session, access.actor, access.container.id)
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/restart", summary="Restart a container", status_code=202)
async def restart_container(
    access: Annotated[ContainerAccess, Depends(restartable_container)],
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
    body: RestartRequest | None = None,
) -> Container:
    """A new generation of replicas takes over one by one while the old ones serve. With `avoid_current_nodes`, the
    new ones use other machines."""
    avoid_until = clock.now() + AVOID_FOR if body is not None and body.avoid_current_nodes else None
    changed = await service.restart_container(
        session, access.actor, access.container.id, avoid_until=avoid_until
    )
    return await answer(session, changed, settings, response)


@router.post("/containers/{container_id}/fix", summary="Apply the proposed fix", status_code=202)
async def apply_fix(
    access: Startable,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    response: Response,
    body: FixRead | None = None,
) -> Container:
    """Changes the one setting that the container's `fix` names and starts the container. With a body, Moorage applies
    the fix only if it has not changed."""
    seen = Fix(body.field, body.before, body.after) if body is not None else None
    changed = await service.apply_fix(
        session, access.actor, access.container.id, seen, keyring=keyring, settings=settings
    )
    return await answer(session, changed, settings, response)


@router.get("/containers/{container_id}/replicas", summary="List replicas")
async def list_replicas(access: Readable, session: TheSession, paging: Paging) -> Page[Replica]:
    """Lists the container's replicas, live ones first, with their machines and what became of each."""
    rows = await repository.list_replicas(session, access.container.id, paging)
    page = page_of(rows, paging, repository.replica_position)
    lent = await lent_machines(session, page.items)
    items = [
        Replica.model_validate(row, from_attributes=True).model_copy(update={"community": lent.get(row.id)})
        for row in page.items
    ]
    return Page(items=items, next_cursor=page.next_cursor)


@router.get("/containers/{container_id}/activity", summary="List activity")
async def list_activity(access: Readable, session: TheSession, paging: Paging) -> Page[Activity]:
    """Lists what happened to the container and who did it, newest first."""
    rows = await repository.list_activities(session, access.container.id, paging)
    items = [Activity.model_validate(row, from_attributes=True) for row in rows]
    return page_of(items, paging, lambda item: Position(item.at, item.id))
