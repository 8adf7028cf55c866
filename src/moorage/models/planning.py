"""From what a hub says of a model to a server, its settings and the memory that it takes. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moorage.catalog.capacity import InstanceType
from moorage.catalog.gpu_models import GpuFacts
from moorage.models.facts import GgufFile, ModelFacts, NotUsableError, chosen_gguf
from moorage.models.fitting import GPU_SHARE, USABLE_SHARE_OF_GPU, Demand, Fit, fit
from moorage.models.kinds import KIND_WORDS, ModelFormat
from moorage.models.memory import RequestLoad, memory_of
from moorage.models.parameters import ParameterCount, active_parameters, count_parameters
from moorage.models.precision import (
    GGUF,
    Precision,
    UnknownPrecisionError,
    as_served,
    plain,
    precision_of,
    stored_bytes,
)
from moorage.models.reference import DEFAULT_REVISION
from moorage.models.shape import Shape, UnknownShapeError, read_shape
from moorage.models.templates import Template, TemplateImage, filled, find_template, gallery

PUBLIC_HUB = "https://huggingface.co"
USUAL_CONTEXT = 16_384
LEAST_CONTEXT = 256
MOST_CONTEXT = 10_000_000


@dataclass(frozen=True)
class Wish:
    """What somebody asks for; None leaves it to the template and the model."""

    template: str | None = None
    context_tokens: int | None = None
    requests: int | None = None
    gguf: str | None = None


@dataclass(frozen=True)
class Weights:
    gpu_bytes: int
    cpu_bytes: int
    parameters: int | None
    active_parameters: int | None
    counted_by: str
    """`hub`, `configuration` or `files`."""


@dataclass(frozen=True)
class ModelPlan:
    facts: ModelFacts
    template: Template
    other_templates: tuple[Template, ...]
    gguf: GgufFile | None
    precision: Precision
    weights: Weights
    shape: Shape | None
    load: RequestLoad
    demand: Demand

    def fit(self, instance_type: InstanceType, gpu: GpuFacts | None) -> Fit:
        return fit(self.demand, instance_type, gpu)


@dataclass(frozen=True)
class ServerSettings:
    """A container's settings, as far as model and template know them."""

    image: TemplateImage
    start_command: str
    port: int
    health_path: str
    health_timeout_s: int
    api_path: str
    environment: Mapping[str, str]


def plan(facts: ModelFacts, wish: Wish, hub: str) -> ModelPlan:
    """Raises `NotUsableError`."""
    serving = _serving(facts, hub)
    precision, weights, gguf = _weights(facts, wish)
    template, others = _template(facts, wish, serving, precision)
    shape = _shape(facts, template)
    load = _load(wish, template, shape)
    demand = Demand(
        model=facts.reference.repository,
        weights_gpu_bytes=weights.gpu_bytes,
        weights_cpu_bytes=weights.cpu_bytes,
        download_bytes=gguf.size_bytes if gguf is not None else facts.download_bytes or weights.gpu_bytes,
        precision=as_served(precision, on_gpu=True),
        shape=shape,
        load=load,
        template=template,
    )
    return ModelPlan(facts, template, others, gguf, precision, weights, shape, load, demand)


def settings_for(
    found: ModelPlan, instance_type: InstanceType, gpu: GpuFacts | None, hub: str
) -> ServerSettings:
    """Of a type that it fits on."""
    template, facts = found.template, found.facts
    device = "cpu" if instance_type.gpu_model is None else "gpu"
    image = template.image_for(device, gpu.capability if gpu is not None else None)
    assert image is not None, "a type without an image does not fit"
    values = {
        "model": facts.reference.repository,
        "revision": facts.reference.revision,
        "context": str(found.load.context_tokens),
        "requests": str(found.load.requests),
        "context_total": str(found.load.context_tokens * found.load.requests),
        "gpus": str(max(1, instance_type.gpu_count)),
        "gpu_share": GPU_SHARE,
        "static_share": _static_share(found, instance_type, gpu),
        "file": found.gguf.name if found.gguf is not None else "",
        "tag": found.gguf.tag if found.gguf is not None else "",
        "precision": found.precision.name,
    }
    present = [f"precision:{found.precision.name}"]
    if facts.reference.revision != DEFAULT_REVISION:
        present.append("revision")
    if instance_type.gpu_count > 1:
        present.append("tensor_parallel")
    environment = {name: filled(text, values) for name, text in template.environment.items()}
    if hub.rstrip("/") != PUBLIC_HUB:
        environment["HF_ENDPOINT"] = hub.rstrip("/")
    return ServerSettings(
        image=image,
        start_command=shlex.join(template.command_for(image, values, present)),
        port=template.port,
        health_path=template.health_path,
        health_timeout_s=template.health_timeout_s,
        api_path=template.api_path,
        environment=environment,
    )


def _static_share(found: ModelPlan, instance_type: InstanceType, gpu: GpuFacts | None) -> str:
    """Of a GPU, for weights and context alone, as some servers want to be told it: what is usable, without the server's own."""
    if gpu is None or gpu.memory_bytes is None:
        return "0"
    server = found.template.server_memory
    memory = memory_of(
        found.weights.gpu_bytes, found.shape, found.load, server, gpus=max(1, instance_type.gpu_count)
    )
    percent = int(USABLE_SHARE_OF_GPU * 100 - memory.server_bytes * 100 / gpu.memory_bytes)
    return f"{max(percent, 1) / 100:.2f}"


def _serving(facts: ModelFacts, hub: str) -> list[Template]:
    """That are for such a model, whatever its precision."""
    serving = [one for one in gallery() if facts.kind in one.kinds and facts.format in one.formats]
    if not serving:
        raise NotUsableError(
            "no_template",
            f"is for {KIND_WORDS[facts.kind]} and comes as {facts.format}, which no template here serves",
        )
    revision = facts.reference.revision
    if revision != DEFAULT_REVISION:
        able = [one for one in serving if one.takes_revision]
        if not able:
            raise NotUsableError(
                "no_template",
                f"cannot be served at {revision}: {_listed(serving)} only {DEFAULT_REVISION}; leave out @{revision}",
            )
        serving = able
    if facts.gated or facts.private or hub.rstrip("/") != PUBLIC_HUB:
        able = [one for one in serving if not one.public_hub_only]
        if not able:
            public = f"only public models of {PUBLIC_HUB}"
            raise NotUsableError("no_template", f"cannot be fetched: {_listed(serving)} {public}")
        serving = able
    return serving


def _listed(templates: Sequence[Template]) -> str:
    """`llama.cpp and Ollama serve`."""
    titles = [one.title for one in templates]
    return f"{titles[0]} serves" if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]} serve"


def _template(
    facts: ModelFacts, wish: Wish, serving: Sequence[Template], precision: Precision
) -> tuple[Template, tuple[Template, ...]]:
    if wish.template is not None and find_template(wish.template) is None:
        names = ", ".join(one.name for one in gallery())
        raise NotUsableError(
            "template_not_found",
            f"cannot be served by {wish.template}: there is no such template. There are {names}",
        )
    able = [one for one in serving if precision.name in one.precisions]
    if not able:
        raise NotUsableError(
            "precision_not_served", f"is stored as {precision.name}, which no template here for it serves"
        )
    chosen = next((one for one in able if one.name == wish.template), None) if wish.template else able[0]
    if chosen is None:
        names = ", ".join(one.name for one in able)
        raise NotUsableError(
            "template_does_not_serve", f"cannot be served by {wish.template}; choose {names}"
        )
    return chosen, tuple(one for one in able if one != chosen)


def _weights(facts: ModelFacts, wish: Wish) -> tuple[Precision, Weights, GgufFile | None]:
    if facts.format is ModelFormat.GGUF:
        file = chosen_gguf(facts.gguf, wish.gguf)
        return GGUF, Weights(file.size_bytes, file.size_bytes, None, None, "files"), file
    if wish.gguf is not None:
        # Served whole, it would need several times the memory that whoever names a file counts on.
        raise NotUsableError("file_not_found", "has no GGUF files. Name no file, or a GGUF repository")
    if facts.format in (ModelFormat.CTRANSLATE2, ModelFormat.DIFFUSERS):
        size_bytes = _file_bytes(facts)
        return plain("fp16"), Weights(size_bytes, size_bytes, None, None, "files"), None
    try:
        precision = precision_of(facts.config, facts.tensor_types)
    except UnknownPrecisionError as exc:
        raise NotUsableError("precision_not_served", str(exc)) from exc
    try:
        count = count_parameters(facts.config)
    except UnknownShapeError:
        count = None
    return precision, _counted(facts, precision, count), None


def _counted(facts: ModelFacts, precision: Precision, count: ParameterCount | None) -> Weights:
    """What the hub counted in the files comes first: it knows of every tensor, and of those that see or hear."""
    active = _active(facts, count) if count is not None else None
    if precision.is_quantized:
        parameters = count.total if count is not None else None
        packed_bytes = stored_bytes(facts.tensor_types)
        if packed_bytes is not None:
            return Weights(packed_bytes, packed_bytes, parameters, active, "hub")
        if count is not None:
            size_bytes = precision.weights_bytes(count)
            return Weights(size_bytes, size_bytes, parameters, active, "configuration")
        size_bytes = _file_bytes(facts)
        return Weights(size_bytes, size_bytes, None, None, "files")
    parameters = facts.parameters_of_hub or (count.total if count is not None else None)
    if parameters is None:
        size_bytes = _file_bytes(facts)
        return Weights(size_bytes, size_bytes, None, None, "files")
    on_gpu, on_cpu = as_served(precision, on_gpu=True), as_served(precision, on_gpu=False)
    counted_by = "hub" if facts.parameters_of_hub else "configuration"
    if count is None or active == count.total:
        active = parameters
    return Weights(
        round(parameters * on_gpu.plain_bytes),
        round(parameters * on_cpu.plain_bytes),
        parameters,
        active,
        counted_by,
    )


def _active(facts: ModelFacts, count: ParameterCount) -> int | None:
    """None where the configuration holds something else than numbers of experts; they change nothing about the memory."""
    try:
        return active_parameters(facts.config, count)
    except UnknownShapeError:
        return None


def _file_bytes(facts: ModelFacts) -> int:
    if facts.download_bytes is None:
        raise NotUsableError(
            "size_unknown", "has files whose size the hub does not give, so its memory cannot be worked out"
        )
    return facts.download_bytes


def _shape(facts: ModelFacts, template: Template) -> Shape | None:
    if facts.format in (ModelFormat.CTRANSLATE2, ModelFormat.DIFFUSERS):
        return None
    try:
        return read_shape(facts.config)
    except UnknownShapeError as exc:
        if not template.reserves_context:
            return None
        raise NotUsableError(
            "unknown_architecture",
            f"{exc}, so the memory of its context cannot be worked out. Deploy it with an image of your own",
        ) from exc


def _load(wish: Wish, template: Template, shape: Shape | None) -> RequestLoad:
    longest = shape.longest_context if shape is not None else None
    if wish.context_tokens is not None and longest is not None and wish.context_tokens > longest:
        raise NotUsableError(
            "context_too_long", f"reads at most {longest:,} tokens, not {wish.context_tokens:,}"
        )
    usual = min(USUAL_CONTEXT, longest or USUAL_CONTEXT)
    return RequestLoad(wish.context_tokens or usual, wish.requests or template.default_requests)
