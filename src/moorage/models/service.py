"""From a model's id to a plan, and from a plan to a container. A model that does not fit is refused before anything is held or made."""

import math
import re

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.gpu_models import gpu_facts
from moorage.catalog.repository import list_instance_types
from moorage.containers.capacity_repository import load_room
from moorage.containers.schemas import (
    CacheSettings,
    ContainerCreate,
    GeneralResources,
    HealthCheck,
    RegistryWrite,
)
from moorage.containers.spec import ApiPath
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.models.choosing import Choice, Offers, best_of, named_of
from moorage.models.memory import gigabytes
from moorage.models.planning import ModelPlan, settings_for
from moorage.models.reference import AskedModel, ModelReference, parse_asked
from moorage.models.schemas import ModelDeploy
from moorage.models.templates import Template

_CACHE_PER_DOWNLOAD = 1.2
_COMPILED_GIB = 4
_LEAST_COMPILED_GIB = 1
"""What servers compile for most models; the default leaves room for more."""


async def load_offers(session: AsyncSession, cpu_overcommit: float) -> Offers:
    room = await load_room(session)
    types = [one for one in await list_instance_types(session) if one.enabled]
    models = {one.gpu_model for one in types if one.gpu_model is not None}
    return Offers(types, room, {model: gpu_facts(model, room.nodes) for model in models}, cpu_overcommit)


def parsed(model: str) -> AskedModel:
    try:
        return parse_asked(model)
    except ValueError as exc:
        raise InvalidInputError(f"model {exc}.", fields=(FieldError("model", str(exc)),)) from exc


def container_of(
    wish: ModelDeploy, choice: Choice, offers: Offers, hub: str, largest_cache_gib: int = 0
) -> ContainerCreate:
    """What is to be made. Raises `ModelError` where it does not fit."""
    fit = best_of(choice) if wish.resources is None else named_of(choice, wish.resources.instance_type)
    resources = wish.resources or GeneralResources(instance_type=fit.instance_type.name)
    settings = settings_for(choice.plan, fit.instance_type, offers.gpu(fit.instance_type), hub)
    own = _own_environment(wish)
    return ContainerCreate(
        name=wish.name if wish.name is not None else name_of(choice.plan.facts.reference),
        category=wish.category,
        image=settings.image.image,
        registry=RegistryWrite(provider=settings.image.provider),
        resources=resources,
        start_command=settings.start_command,
        port=settings.port,
        health_check=HealthCheck(path=settings.health_path, timeout_s=settings.health_timeout_s),
        env={name: value for name, value in own.items() if settings.environment.get(name) != value},
        # What the template sets is public. As a secret it would be masked in the logs, such as the hub's address in every line
        # about the download.
        plain_env={
            name: value
            for name, value in settings.environment.items()
            if name not in own or own[name] == value
        },
        api_path=ApiPath(settings.api_path),
        # As it was said: a type of another infrastructure is refused by whoever makes the container.
        infrastructure=wish.infrastructure,
        accept_exposure=wish.accept_exposure,
        sleep_after_s=wish.sleep_after_s,
        cache=_cache(wish, choice.plan, largest_cache_gib),
    )


def cache_for(plan: ModelPlan, largest_gib: int) -> CacheSettings | None:
    """Its weights, a part of them a second time while they are exchanged for newer ones, and what is compiled. None where the
    installation has no room for that: one that is too small would end every start."""
    size_gib = math.ceil(plan.demand.download_bytes * _CACHE_PER_DOWNLOAD / 2**30) + _COMPILED_GIB
    return CacheSettings(size_gib=size_gib) if size_gib <= largest_gib else None


def _cache(wish: ModelDeploy, plan: ModelPlan, largest_gib: int) -> CacheSettings | None:
    """Raises `InvalidInputError` where the download has no room in it: every start would end at the cache's limit."""
    if "cache" not in wish.model_fields_set:
        return cache_for(plan, largest_gib)
    least_gib = math.ceil(plan.demand.download_bytes / 2**30) + _LEAST_COMPILED_GIB
    if wish.cache is not None and wish.cache.size_gib < least_gib:
        download = gigabytes(plan.demand.download_bytes)
        message = f"is too small for the {download} to download; give it at least {least_gib} GiB"
        fields = (FieldError("cache.size_gib", message),)
        raise InvalidInputError(f"cache.size_gib {message}.", fields=fields)
    return wish.cache


def _own_environment(wish: ModelDeploy) -> dict[str, str]:
    """What whoever deploys it sets; they may also repeat what the template does."""
    token = {"HF_TOKEN": wish.hub_token} if wish.hub_token is not None else {}
    return {**token, **wish.env}


def name_of(reference: ModelReference) -> str:
    """`Qwen/Qwen2.5-7B-Instruct` → `Qwen2.5-7B-Instruct`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", reference.name)[:63]


def cheapest_for(template: Template, offers: Offers) -> InstanceType | None:
    """Of what a machine here has, and of what holds the server itself: the least that it can cost, whatever the model."""

    def runs_on(one: InstanceType) -> bool:
        gpu = offers.gpu(one)
        device = "cpu" if one.gpu_model is None else "gpu"
        if template.image_for(device, gpu.capability if gpu is not None else None) is None:
            return False
        memory_bytes = one.memory_bytes if gpu is None else gpu.memory_bytes
        has_room = memory_bytes is not None and memory_bytes > template.fixed_bytes
        return has_room and offers.could_ever_hold(one, one.infrastructure)

    able = [one for one in offers.types if runs_on(one)]
    return min(able, key=lambda one: (one.price_per_hour_microusd, one.name), default=None)
