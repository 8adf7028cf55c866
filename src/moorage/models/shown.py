"""Plans and templates as the API answers them."""

from collections.abc import Sequence
from dataclasses import dataclass

from moorage.catalog.capacity import InstanceType
from moorage.containers.start_times.measuring import PastStep
from moorage.models.choosing import Choice, Offers, where_it_goes
from moorage.models.fitting import Fit
from moorage.models.memory import Memory, context_bytes_per_request, in_words, memory_of
from moorage.models.planning import ModelPlan, settings_for
from moorage.models.schemas import (
    FitRead,
    MemoryRead,
    ModelPlanRead,
    ModelRead,
    ServerSettingsRead,
    StartRead,
    TemplateRead,
    TemplateSummary,
)
from moorage.models.service import cache_for, cheapest_for
from moorage.models.start_estimate import estimate
from moorage.models.templates import Template

_MOST_TAGS = 50
"""Real repositories have thirty or so; another may have as many files as an answer of megabytes."""


@dataclass(frozen=True)
class PastStarts:
    organization_id: str
    """Of whoever asks."""
    steps: Sequence[PastStep]


def plan_json(
    choice: Choice, offers: Offers, hub: str, past: PastStarts, largest_cache_gib: int = 0
) -> ModelPlanRead:
    found, best = choice.plan, choice.best
    memory = memory_of(found.weights.gpu_bytes, found.shape, found.load, found.template.server_memory)
    keeps_context = found.shape is not None and found.template.reserves_context
    of_request = (
        context_bytes_per_request(
            found.shape,
            found.load.context_tokens,
            found.load.kv_bytes,
            uses_window=found.template.uses_window,
        )
        if found.shape is not None and keeps_context
        else None
    )
    needed = f"Each replica needs {in_words(memory, found.load)}."
    reason, where = where_it_goes(choice)
    return ModelPlanRead(
        ok=True,
        reason=reason,
        message=f"{needed} {where}",
        model=_model_json(found),
        template=_summary(found.template),
        other_templates=[_summary(one) for one in found.other_templates],
        context_tokens=found.load.context_tokens,
        longest_context_tokens=found.shape.longest_context if found.shape is not None else None,
        requests_at_once=found.load.requests,
        context_bytes_per_request=of_request,
        memory=_memory_json(memory),
        instance_types=[_fit_json(one, choice, offers, hub, past) for one in choice.fits],
        instance_type=best.instance_type.name if best is not None else None,
        settings=_settings_on(best, choice, offers, hub) if best is not None else None,
        cache=cache_for(found, largest_cache_gib),
    )


def refused_json(code: str, message: str) -> ModelPlanRead:
    return ModelPlanRead(ok=False, reason=code, message=message)


def templates_json(templates: Sequence[Template], offers: Offers) -> list[TemplateRead]:
    return [_template_json(one, cheapest_for(one, offers)) for one in templates]


def _template_json(template: Template, cheapest: InstanceType | None) -> TemplateRead:
    return TemplateRead(
        name=template.name,
        title=template.title,
        summary=template.summary,
        kinds=list(template.kinds),
        formats=list(template.formats),
        precisions=list(template.precisions),
        runs_without_gpu=template.image_for("cpu", None) is not None,
        images=[one.image for one in template.images],
        port=template.port,
        health_path=template.health_path,
        api_path=template.api_path,
        example=template.example,
        memory_bytes=template.fixed_bytes,
        instance_type=cheapest.name if cheapest is not None else None,
        price_per_hour_microusd=cheapest.price_per_hour_microusd if cheapest is not None else None,
    )


def _model_json(found: ModelPlan) -> ModelRead:
    facts, weights = found.facts, found.weights
    return ModelRead(
        id=str(facts.reference),
        repository=facts.reference.repository,
        revision=facts.reference.revision,
        commit=facts.commit,
        kind=facts.kind,
        format=facts.format,
        architecture=facts.architecture,
        precision=found.gguf.tag if found.gguf is not None else found.precision.name,
        parameters=weights.parameters,
        active_parameters=weights.active_parameters,
        counted_by=weights.counted_by,
        license=facts.license,
        gated=facts.gated,
        private=facts.private,
        files=facts.files,
        download_bytes=found.demand.download_bytes,
        gguf_files=[one.tag for one in facts.gguf[:_MOST_TAGS]],
    )


def _fit_json(one: Fit, choice: Choice, offers: Offers, hub: str, past: PastStarts) -> FitRead:
    instance_type = one.instance_type
    free = offers.free(instance_type)
    settings = _settings_on(one, choice, offers, hub) if one.fits else None
    return FitRead(
        instance_type=instance_type.name,
        gpu_model=instance_type.gpu_model,
        gpu_count=instance_type.gpu_count,
        price_per_hour_microusd=instance_type.price_per_hour_microusd,
        infrastructure=instance_type.infrastructure,
        fits=one.fits,
        reason=one.reason,
        obstacle=one.obstacle,
        memory=_memory_json(one.memory) if one.memory is not None else None,
        total_bytes=one.total_bytes,
        usable_bytes=one.usable_bytes,
        free_bytes=one.free_bytes,
        longest_context_tokens=one.longest_context,
        available=free > 0,
        free=free,
        capacity=offers.capacity(instance_type),
        settings=settings,
        start=_start_json(instance_type, settings.image, choice, past) if settings is not None else None,
    )


def _start_json(instance_type: InstanceType, image: str, choice: Choice, past: PastStarts) -> StartRead:
    found = estimate(
        past.steps,
        past.organization_id,
        infrastructure=instance_type.infrastructure,
        instance_type=instance_type.name,
        image=image,
        download_bytes=choice.plan.demand.download_bytes,
    )
    return StartRead(
        image_bytes_per_s=found.image_bytes_per_s,
        download_s=_whole(found.download_s),
        load_s=_whole(found.load_s),
        again_s=_whole(found.again_s),
        own=found.own,
    )


def _whole(seconds: float | None) -> int | None:
    return max(1, round(seconds)) if seconds is not None else None


def _memory_json(memory: Memory) -> MemoryRead:
    return MemoryRead(
        weights_bytes=memory.weights_bytes,
        context_bytes=memory.context_bytes,
        server_bytes=memory.server_bytes,
        total_bytes=memory.total_bytes,
    )


def _settings_on(fit: Fit, choice: Choice, offers: Offers, hub: str) -> ServerSettingsRead:
    settings = settings_for(choice.plan, fit.instance_type, offers.gpu(fit.instance_type), hub)
    return ServerSettingsRead(
        image=settings.image.image,
        provider=settings.image.provider,
        start_command=settings.start_command,
        port=settings.port,
        health_path=settings.health_path,
        health_timeout_s=settings.health_timeout_s,
        api_path=settings.api_path,
        env=dict(settings.environment),
    )


def _summary(template: Template) -> TemplateSummary:
    return TemplateSummary(name=template.name, title=template.title, summary=template.summary)
