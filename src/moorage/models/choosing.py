"""Which of the offered instance types a model goes to, and what is said where it can go to none. Asks nobody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.gpu_models import GpuFacts
from moorage.catalog.shortage import at_its_best, could_ever_hold, shortage_of
from moorage.catalog.siblings import sibling_of
from moorage.containers.capacity_repository import Room
from moorage.engines.base import NodeCapacity
from moorage.kit.errors import FieldError, InvalidInputError, ModelError
from moorage.models.facts import ModelFacts, NotUsableError
from moorage.models.fitting import Fit, does_not_fit, refusal, shorter_context, smallest_that_fits
from moorage.models.kinds import ModelFormat, ModelKind
from moorage.models.planning import ModelPlan, Wish, plan
from moorage.models.schemas import ModelWish

DOES_NOT_FIT = "model_does_not_fit"
NO_MACHINE = "no_machine_has_it"


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

    @cached_property
    def best_nodes(self) -> Sequence[NodeCapacity]:
        """The machines, as if none were silent, closed or broken."""
        return [at_its_best(node) for node in self.room.nodes]

    @cached_property
    def held_here(self) -> frozenset[str]:
        """Names of the types that a machine here has, be it in use or broken for now. Found once: there may be a thousand machines, and
        each template and each sentence asks."""
        return frozenset(
            one.name for one in self.types if could_ever_hold(one, self.best_nodes, self.cpu_overcommit)
        )

    def could_ever_hold(self, instance_type: InstanceType, infrastructure: str) -> bool:
        """Whether waiting for it makes sense. With `any`, the same size on the other kind of machine will do."""
        sibling = sibling_of(instance_type, self.types) if infrastructure == "any" else None
        return any(one.name in self.held_here for one in (instance_type, sibling) if one is not None)

    def why_never(self, instance_type: InstanceType) -> str:
        """A clause, of a type that no machine here could ever hold, not even once all that is broken is repaired."""
        if instance_type.gpu_model is not None and not any(
            gpu.model == instance_type.gpu_model
            for node in self.room.nodes
            if node.infrastructure == instance_type.infrastructure
            for gpu in node.gpus
        ):
            return "no machine here has that GPU"
        short = shortage_of(instance_type, self.best_nodes, {}, self.cpu_overcommit)
        return _naming(instance_type, short.clause)

    def why_it_waits(self, instance_type: InstanceType) -> str:
        """A clause and the sentence after it, of a type that has no room now."""
        short = shortage_of(instance_type, self.room.nodes, self.room.used, self.cpu_overcommit)
        return f"{_naming(instance_type, short.clause)}. {short.advice}"


@dataclass(frozen=True)
class Choice:
    plan: ModelPlan
    fits: Sequence[Fit]
    """Cheap ones first."""
    best: Fit | None
    """Of those that may be chosen: the cheapest that is free, or else the cheapest that a machine here has."""
    infrastructure: str
    offers: Offers

    @property
    def allowed(self) -> Sequence[Fit]:
        """On machines of those whom the model was to be shown to."""
        return [one for one in self.fits if _may_run(one, self.infrastructure)]

    @property
    def here(self) -> Sequence[Fit]:
        """Of those, what a machine of this installation has, in use or not."""
        return [one for one in self.allowed if self.is_here(one)]

    def is_here(self, fit: Fit) -> bool:
        return self.offers.could_ever_hold(fit.instance_type, self.infrastructure)


def choose(facts: ModelFacts, wish: ModelWish, offers: Offers, hub: str) -> Choice:
    """Raises `ModelError`."""
    wanted = Wish(wish.template, wish.context_tokens, wish.requests_at_once, wish.file)
    try:
        found = plan(facts, wanted, hub)
    except NotUsableError as exc:
        raise ModelError(f"{facts.reference.repository} {exc}.", code=exc.code) from exc
    by_price = sorted(offers.types, key=lambda one: (one.price_per_hour_microusd, one.name))
    fits = [found.fit(one, offers.gpu(one)) for one in by_price]
    choice = Choice(found, fits, None, wish.infrastructure, offers)
    free = [one for one in choice.allowed if offers.free(one.instance_type) > 0]
    return replace(choice, best=smallest_that_fits(free) or smallest_that_fits(choice.here))


def best_of(choice: Choice) -> Fit:
    """Raises `ModelError` where there is none: a container that could never start would hold money."""
    if choice.best is None:
        raise no_place(choice)
    return choice.best


def named_of(choice: Choice, name: str) -> Fit:
    """The type that was asked for by its name. Raises `InvalidInputError` where it cannot run there."""
    fit = next((one for one in choice.fits if one.instance_type.name == name), None)
    if fit is None:
        names = ", ".join(one.instance_type.name for one in choice.fits) or "none yet"
        message = f"{name[:63]!r} is not an instance type that is offered here; there are {names}"
        fields = (FieldError("resources.instance_type", message),)
        raise InvalidInputError(f"resources.instance_type {message}.", fields=fields)
    if not fit.fits:
        fields = (FieldError("resources.instance_type", fit.reason or "does not fit"),)
        raise ModelError(_why_not_there(choice, fit), code=DOES_NOT_FIT, fields=fields)
    if not choice.offers.could_ever_hold(fit.instance_type, choice.infrastructure):
        message = _no_machine(choice, fit)
        raise ModelError(message, code=NO_MACHINE, fields=(FieldError("resources.instance_type", message),))
    return fit


def where_it_goes(choice: Choice) -> tuple[str | None, str]:
    """In a sentence or two, for whoever looks before they deploy; where it goes nowhere, with the code of the reason."""
    if choice.best is None:
        nowhere = no_place(choice)
        return nowhere.code, nowhere.message
    instance_type = choice.best.instance_type
    fits = f"It fits on {instance_type.name}"
    if choice.offers.free(instance_type) > 0:
        return None, f"{fits}."
    return None, f"{fits}, but {choice.offers.why_it_waits(instance_type)}"


def no_place(choice: Choice) -> ModelError:
    """Where nothing that may be chosen will do."""
    wanted = smallest_that_fits(choice.allowed)
    if wanted is not None:
        return ModelError(_no_machine(choice, wanted), code=NO_MACHINE)
    return ModelError(_nothing_fits(choice), code=DOES_NOT_FIT)


def _nothing_fits(choice: Choice) -> str:
    """Of what may be chosen."""
    demand = choice.plan.demand
    elsewhere = _elsewhere(choice)
    if elsewhere is not None:
        shorter = shorter_context(choice.here)
        return (
            f"{demand.model} fits on no instance type with infrastructure {choice.infrastructure!r}."
            f"{f' {shorter}' if shorter is not None else ''} {elsewhere}"
        )
    closest = max(
        (one for one in choice.allowed if one.free_bytes is not None),
        key=lambda one: one.free_bytes or 0,
        default=None,
    )
    if closest is None:
        return f"{demand.model} fits on no instance type that is offered here."
    return refusal(demand, closest, choice.allowed, choice.here)


def _no_machine(choice: Choice, wanted: Fit) -> str:
    """It fits on that type, which no machine here has."""
    instance_type = wanted.instance_type
    sentence = f"It fits on {instance_type.name}, but {choice.offers.why_never(instance_type)}."
    if choice.best is not None:
        return f"{sentence} It fits on {choice.best.instance_type.name} as well."
    helps = shorter_context(choice.here) or _elsewhere(choice)
    if helps is not None:
        return f"{sentence} {helps}"
    facts = choice.plan.facts
    runs_without = instance_type.gpu_model is not None and facts.kind is ModelKind.CHAT
    if runs_without and facts.format is not ModelFormat.GGUF:
        return f"{sentence} Choose a GGUF model, which runs without a GPU, or ask the operator."
    return f"{sentence} Choose a smaller model, or ask the operator."


def _why_not_there(choice: Choice, wanted: Fit) -> str:
    demand = choice.plan.demand
    if choice.best is None and (fitting := smallest_that_fits(choice.allowed)) is not None:
        return f"{does_not_fit(demand, wanted)} {_no_machine(choice, fitting)}"
    return refusal(demand, wanted, choice.allowed, choice.here)


def _elsewhere(choice: Choice) -> str | None:
    """On machines that it was not to run on so far."""
    others = [
        one
        for one in choice.fits
        if choice.offers.could_ever_hold(one.instance_type, one.instance_type.infrastructure)
    ]
    best = smallest_that_fits([one for one in others if not _may_run(one, choice.infrastructure)])
    if best is None:
        return None
    instance_type = best.instance_type
    return f"It fits on {instance_type.name}, with infrastructure {instance_type.infrastructure!r}."


def _may_run(fit: Fit, infrastructure: str) -> bool:
    return infrastructure in (fit.instance_type.infrastructure, "any")


def _naming(instance_type: InstanceType, clause: str) -> str:
    """After "It fits on …", `it` would be the model."""
    needs = "it needs "
    return f"{instance_type.name} needs {clause.removeprefix(needs)}" if clause.startswith(needs) else clause
