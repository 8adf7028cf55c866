"""From a model's id to a plan, and from a plan to a container. A model that does not fit is refused before anything is held or made."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.gpu_models import GpuFacts, gpu_facts
from moorage.catalog.repository import list_instance_types
from moorage.containers.capacity_repository import Room, load_room
from moorage.containers.schemas import (
    CacheSettings,
    ContainerCreate,
    GeneralResources,
    HealthCheck,
    RegistryWrite,
)
from moorage.containers.spec import ApiPath
from moorage.kit.errors import FieldError, InvalidInputError, ModelError
from moorage.models.facts import ModelFacts, NotUsableError
from moorage.models.fitting import Fit, refusal, shorter_context, smallest_that_fits
from moorage.models.planning import ModelPlan, ServerSettings, Wish, plan, settings_for
from moorage.models.reference import ModelReference, parse_reference
from moorage.models.schemas import ModelDeploy, ModelWish
from moorage.models.templates import Template

DOES_NOT_FIT = "model_does_not_fit"
_CACHE_PER_DOWNLOAD = 1.2
_COMPILED_GIB = 4


@dataclass(frozen=True)
class Offers:
    """The instance types that are offered, and what is free."""

    types: Sequence[InstanceType]
    room: Room
    gpus: Mapping[str, GpuFacts]
    cpu_overcommit: float

    def gpu(self, instance_type: InstanceType) -> GpuFacts | None:
        return self.gpus.get(instance_type.gpu_model) if instance_type.gpu_model is not None else None

    def free(self, instance_type: InstanceType) -> int:
        return room_for(instance_type, self.room.nodes, self.room.used, self.cpu_overcommit)

    def capacity(self, instance_type: InstanceType) -> int:
        return room_for(instance_type, self.room.nodes, {}, self.cpu_overcommit)


async def load_offers(session: AsyncSession, cpu_overcommit: float) -> Offers:
    room = await load_room(session)
    types = [one for one in await list_instance_types(session) if one.enabled]
    models = {one.gpu_model for one in types if one.gpu_model is not None}
    return Offers(types, room, {model: gpu_facts(model, room.nodes) for model in models}, cpu_overcommit)


@dataclass(frozen=True)
class Choice:
    plan: ModelPlan
    fits: Sequence[Fit]
    """Cheap ones first."""
    best: Fit | None
    """Of those that may be chosen."""
    infrastructure: str

    @property
    def allowed(self) -> Sequence[Fit]:
        """On machines of those whom the model was to be shown to."""
        return [one for one in self.fits if _may_run(one, self.infrastructure)]


def parsed(model: str) -> ModelReference:
    try:
        return parse_reference(model)
    except ValueError as exc:
        raise InvalidInputError(f"model {exc}.", fields=(FieldError("model", str(exc)),)) from exc


def choose(facts: ModelFacts, wish: ModelWish, offers: Offers, hub: str) -> Choice:
    """Raises `ModelError`."""
    wanted = Wish(wish.template, wish.context_tokens, wish.requests_at_once, wish.file)
    try:
        found = plan(facts, wanted, hub)
    except NotUsableError as exc:
        raise ModelError(f"{facts.reference.repository} {exc}.", code=exc.code) from exc
    by_price = sorted(offers.types, key=lambda one: (one.price_per_hour_microusd, one.name))
    fits = [found.fit(one, offers.gpu(one)) for one in by_price]
    allowed = [one for one in fits if _may_run(one, wish.infrastructure)]
    free = [one for one in allowed if one.fits and offers.free(one.instance_type) > 0]
    best = smallest_that_fits(free) or smallest_that_fits(allowed)
    return Choice(found, fits, best, wish.infrastructure)


def container_of(
    wish: ModelDeploy, choice: Choice, offers: Offers, hub: str, largest_cache_gib: int = 0
) -> ContainerCreate:
    """What is to be made. Raises `ModelError` where it does not fit."""
    fit = _fit_of(wish, choice)
    resources = wish.resources or GeneralResources(instance_type=fit.instance_type.name)
    settings = settings_for(choice.plan, fit.instance_type, offers.gpu(fit.instance_type), hub)
    return ContainerCreate(
        name=wish.name if wish.name is not None else name_of(choice.plan.facts.reference),
        category=wish.category,
        image=settings.image.image,
        registry=RegistryWrite(provider=settings.image.provider),
        resources=resources,
        start_command=settings.start_command,
        port=settings.port,
        health_check=HealthCheck(path=settings.health_path, timeout_s=settings.health_timeout_s),
        env=environment_of(settings, wish),
        api_path=ApiPath(settings.api_path),
        # As it was said: a type of another infrastructure is refused by whoever makes the container.
        infrastructure=wish.infrastructure,
        accept_exposure=wish.accept_exposure,
        sleep_after_s=wish.sleep_after_s,
        cache=wish.cache if "cache" in wish.model_fields_set else cache_for(choice.plan, largest_cache_gib),
    )


def cache_for(plan: ModelPlan, largest_gib: int) -> CacheSettings | None:
    """Its weights, a part of them a second time while they are exchanged for newer ones, and what is compiled. None where the
    installation has no room for that: one that is too small would end every start."""
    size_gib = math.ceil(plan.demand.download_bytes * _CACHE_PER_DOWNLOAD / 2**30) + _COMPILED_GIB
    return CacheSettings(size_gib=size_gib) if size_gib <= largest_gib else None


def environment_of(settings: ServerSettings, wish: ModelDeploy) -> dict[str, str]:
    token = {"HF_TOKEN": wish.hub_token} if wish.hub_token is not None else {}
    return {**settings.environment, **token, **wish.env}


def name_of(reference: ModelReference) -> str:
    """`Qwen/Qwen2.5-7B-Instruct` → `Qwen2.5-7B-Instruct`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", reference.name)[:63]


def cheapest_for(template: Template, offers: Offers) -> InstanceType | None:
    def runs_on(one: InstanceType) -> bool:
        gpu = offers.gpu(one)
        device = "cpu" if one.gpu_model is None else "gpu"
        return template.image_for(device, gpu.capability if gpu is not None else None) is not None

    able = [one for one in offers.types if runs_on(one)]
    return min(able, key=lambda one: (one.price_per_hour_microusd, one.name), default=None)


def _fit_of(wish: ModelDeploy, choice: Choice) -> Fit:
    if wish.resources is None:
        if choice.best is None:
            raise ModelError(nothing_fits(choice), code=DOES_NOT_FIT)
        return choice.best
    name = wish.resources.instance_type
    fit = next((one for one in choice.fits if one.instance_type.name == name), None)
    if fit is None:
        message = f"{name[:63]!r} is not an instance type that is offered here; see GET /instance-types"
        fields = (FieldError("resources.instance_type", message),)
        raise InvalidInputError(f"resources.instance_type {message}.", fields=fields)
    if not fit.fits:
        message = refusal(choice.plan.demand, fit, choice.allowed)
        fields = (FieldError("resources.instance_type", fit.reason or "does not fit"),)
        raise ModelError(message, code=DOES_NOT_FIT, fields=fields)
    return fit


def nothing_fits(choice: Choice) -> str:
    """Of what may be chosen."""
    demand = choice.plan.demand
    elsewhere = smallest_that_fits(choice.fits)
    if elsewhere is not None:
        instance_type, shorter = elsewhere.instance_type, shorter_context(choice.allowed)
        return (
            f"{demand.model} fits on no instance type with infrastructure {choice.infrastructure!r}."
            f"{f' {shorter}' if shorter is not None else ''} "
            f"It fits on {instance_type.name}, with infrastructure {instance_type.infrastructure!r}."
        )
    closest = max(
        (one for one in choice.allowed if one.free_bytes is not None),
        key=lambda one: one.free_bytes or 0,
        default=None,
    )
    if closest is None:
        return f"{demand.model} fits on no instance type that is offered here."
    return refusal(demand, closest, choice.allowed)


def _may_run(fit: Fit, infrastructure: str) -> bool:
    return infrastructure in (fit.instance_type.infrastructure, "any")
