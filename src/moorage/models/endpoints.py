from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response

from moorage.catalog.repository import keep_instance_type
from moorage.containers import service as containers
from moorage.containers.schemas import MOST_SETTINGS_BYTES, Container
from moorage.containers.shown import shown_new
from moorage.containers.start_times.repository import known_to
from moorage.containers.states import Reason
from moorage.containers.validation import largest_cache_gib
from moorage.identity.authentication import TheActor
from moorage.kit.errors import ConflictError, ModelError, NotFoundError, UnavailableError
from moorage.kit.pagination import Page
from moorage.kit.web import TheClock, TheKeyring, TheSession, TheSettings, takes_body
from moorage.models import service
from moorage.models.choosing import choose
from moorage.models.lookups import ModelLookups
from moorage.models.reference import ModelReference
from moorage.models.schemas import ModelDeploy, ModelPlanRead, ModelWish, TemplateRead
from moorage.models.shown import PastStarts, plan_json, refused_json, templates_json
from moorage.models.templates import gallery
from moorage.organizations.access import ProjectAccess, access_project, project_with
from moorage.organizations.permissions import Permission

WishT = TypeVar("WishT", bound=ModelWish)

router = APIRouter(tags=["models"])
Managed = Annotated[ProjectAccess, Depends(project_with(Permission.CONTAINER_MANAGE))]


async def _lookups(request: Request) -> ModelLookups:
    lookups: ModelLookups = request.app.state.model_lookups
    return lookups


TheLookups = Annotated[ModelLookups, Depends(_lookups)]


@router.get("/templates", summary="List model servers")
async def list_templates(_: TheActor, session: TheSession, settings: TheSettings) -> Page[TemplateRead]:
    """Lists the server templates that can serve a model, the usual choice first."""
    offers = await service.load_offers(session, settings.cpu_overcommit)
    return Page(items=templates_json(gallery(), offers))


@router.post("/projects/{project_id}/models/resolve", summary="Look up a model")
async def resolve_model(
    body: ModelWish,
    access: Managed,
    session: TheSession,
    settings: TheSettings,
    clock: TheClock,
    lookups: TheLookups,
) -> ModelPlanRead:
    """Asks the model hub about the model and works out which server, how much memory and which instance types it
    needs. If it cannot run, `ok` is false and `reason` says why. Creates and charges nothing.
    """
    body, reference = _understood(body)
    offers = await service.load_offers(session, settings.cpu_overcommit)
    # The hub may take its time; nobody waits for our connection meanwhile.
    await session.commit()
    try:
        hub = _hub(settings.model_hub)
        facts = await lookups.facts(access.actor.shares_as, hub, reference, body.hub_token, body.file, clock)
        choice = choose(facts, body, offers, hub)
        organization_id = access.project.organization_id
        past = PastStarts(organization_id, await known_to(session, organization_id))
        return plan_json(choice, offers, hub, past, largest_cache_gib(settings))
    except (ModelError, UnavailableError, ConflictError) as exc:
        return refused_json(exc.code, exc.message)


@router.post("/projects/{project_id}/models/deploy", summary="Deploy a model", status_code=201)
@takes_body(MOST_SETTINGS_BYTES)
async def deploy_model(
    body: ModelDeploy,
    access: Managed,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    clock: TheClock,
    lookups: TheLookups,
    response: Response,
) -> Container:
    """Creates a container that serves the model, and starts it. If the model does not fit, Moorage creates and holds
    nothing."""
    body, reference = _understood(body)
    offers = await service.load_offers(session, settings.cpu_overcommit)
    await session.commit()
    hub = _hub(settings.model_hub)
    facts = await lookups.facts(access.actor.shares_as, hub, reference, body.hub_token, body.file, clock)
    wanted = service.container_of(
        body, choose(facts, body, offers, hub), offers, hub, largest_cache_gib(settings)
    )
    # Seconds have passed: who may do this, and where, is asked again.
    again = await access_project(session, access.actor, access.project.id, Permission.CONTAINER_MANAGE)
    if again is None:
        raise NotFoundError("There is no such project.")
    _kept = await keep_instance_type(session, wanted.resources.instance_type)
    row = await containers.create_container(
        session, again.actor, again.project, wanted, keyring=keyring, settings=settings, clock=clock
    )
    response.headers["Location"] = f"/api/v1/containers/{row.id}"
    if row.reason == Reason.AWAITING_APPROVAL:
        response.status_code = 202
    return await shown_new(session, row, settings)


def _understood(body: WishT) -> tuple[WishT, ModelReference]:
    """An address may name a file; what is said beside it wins."""
    asked = service.parsed(body.model)
    file = body.file if body.file is not None else asked.file
    return body.model_copy(update={"file": file}), asked.reference


def _hub(address: str) -> str:
    if not address:
        raise ConflictError(
            "This installation uses no model hub. Deploy an image of your own, or ask the operator to set model_hub.",
            code="no_model_hub",
        )
    return address.rstrip("/")
