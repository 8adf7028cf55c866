"""Which instance type a model is put on, of those that it fits on, and what comes of it."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.catalog.capacity import InstanceType, Used
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.gpu_models import gpu_facts
from moorage.containers.capacity_repository import Room
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.kit.errors import InvalidInputError, ModelError
from moorage.models import service
from moorage.models.choosing import Offers, choose
from moorage.models.facts import ModelFacts, facts_from
from moorage.models.planning import PUBLIC_HUB
from moorage.models.reference import parse_reference
from moorage.models.schemas import ModelDeploy
from moorage.models.shown import PastStarts, plan_json, templates_json
from moorage.models.templates import gallery
from tests.models.configurations import COUNTED, config_of
from tests.models.little_work import little_work

QWEN = "Qwen/Qwen2.5-7B-Instruct"
MODEL = "hf:acme/secret-GGUF"
NO_STARTS = PastStarts("org_acme", ())
OURS = InstanceType("cpu-ours", None, 0, 4000, 64 << 30, 500 << 30, 200_000, "operator")
STRANGERS = InstanceType("cpu-strangers", None, 0, 4000, 64 << 30, 500 << 30, 100_000, "community")
SHAPE = {
    "num_hidden_layers": 10,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def facts_of_private_model() -> ModelFacts:
    answer = {"private": True, "siblings": [{"rfilename": "m-Q4_K_M.gguf", "size": 10**9}]}
    return replace(facts_from(parse_reference(MODEL), answer), config=SHAPE)


def offered(*types: InstanceType) -> Offers:
    nodes = [NodeCapacity(one.name, one.infrastructure, "amd64", 64_000, 1 << 40, ()) for one in types]
    return Offers(types, Room(nodes), {}, 16.0)


def chosen(offers: Offers, **wish: Any) -> tuple[str, str]:
    """The type that it is put on, and whose machines were asked for."""
    wanted = ModelDeploy(model=MODEL, hub_token="hf_secret", **wish)
    choice = choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    assert [one.instance_type for one in choice.fits] == sorted(
        offers.types, key=lambda one: one.price_per_hour_microusd
    ), "what may not be chosen is shown all the same"
    made = service.container_of(wanted, choice, offers, PUBLIC_HUB)
    return made.resources.instance_type, made.infrastructure


def test_a_strangers_machine_is_chosen_and_never_fallen_into() -> None:
    both = offered(OURS, STRANGERS)
    assert chosen(both) == ("cpu-ours", "operator")
    assert chosen(both, infrastructure="community") == ("cpu-strangers", "community")
    assert chosen(both, infrastructure="any") == ("cpu-strangers", "any")


def test_consent_is_not_made_up_for_a_type_that_was_named() -> None:
    """The container's own check then refuses it, because the type is of another infrastructure."""
    named = {"mode": "general", "instance_type": "cpu-strangers"}
    assert chosen(offered(OURS, STRANGERS), resources=named) == ("cpu-strangers", "operator")


@pytest.mark.parametrize("ours", [[], [replace(OURS, memory_bytes=1 << 30)]])
def test_where_only_strangers_have_room_enough_it_is_said(ours: list[InstanceType]) -> None:
    with pytest.raises(ModelError, match="fits on cpu-strangers, with infrastructure 'community'"):
        chosen(offered(*ours, STRANGERS))


def test_the_context_that_fits_is_named_where_nothing_else_does() -> None:
    """Also if another type, which no context helps with, lacks less."""
    small = replace(OURS, name="cpu-small", memory_bytes=4 << 30)
    no_disk = replace(small, name="no-disk", memory_bytes=5 << 30, disk_bytes=1 << 20)
    with pytest.raises(ModelError) as refused:
        chosen(offered(small, no_disk), requests_at_once=64)
    assert "does not fit on no-disk" in refused.value.message
    assert refused.value.message.endswith(" A context of 1,024 tokens fits on cpu-small.")
    assert chosen(offered(small), requests_at_once=64, context_tokens=1024)[0] == "cpu-small"


def with_machines(*nodes: NodeCapacity, used: set[str] | None = None) -> Offers:
    """The usual catalogue. Of `used` machines, all GPUs are taken."""
    types = default_catalogue()
    gpus = {one.gpu_model: gpu_facts(one.gpu_model) for one in types if one.gpu_model is not None}
    taken = {
        one.key: Used(gpu_device_ids=frozenset(gpu.device_id for gpu in one.gpus))
        for one in nodes
        if one.name in (used or ())
    }
    return Offers(types, Room(nodes, taken), gpus, 16.0)


def machine(name: str, *gpus: str, **how: Any) -> NodeCapacity:
    devices = tuple(GpuDevice(f"{name}-{at}", model, None) for at, model in enumerate(gpus))
    return NodeCapacity(name, "operator", "amd64", 64_000, 1 << 38, devices, **how)


def resolved(offers: Offers, model: str = QWEN, **wish: Any) -> tuple[str | None, str | None, str]:
    wanted = ModelDeploy(model=f"hf:{model}", **wish)
    shown = plan_json(choose(facts_of(model), wanted, offers, PUBLIC_HUB), offers, PUBLIC_HUB, NO_STARTS)
    return shown.instance_type, shown.reason, shown.message.partition(" GB. ")[2]


def refused(offers: Offers, model: str = QWEN, **wish: Any) -> ModelError:
    wanted = ModelDeploy(model=f"hf:{model}", **wish)
    with pytest.raises(ModelError) as error:
        service.container_of(wanted, choose(facts_of(model), wanted, offers, PUBLIC_HUB), offers, PUBLIC_HUB)
    return error.value


def facts_of(model: str) -> ModelFacts:
    config = config_of(model)
    answer = {
        "siblings": [{"rfilename": "model.safetensors", "size": COUNTED[model] * 2}],
        "pipeline_tag": "text-generation",
        "config": {"architectures": config["architectures"]},
    }
    return replace(facts_from(parse_reference(f"hf:{model}"), answer), config=config)


def test_no_machine_has_the_gpu() -> None:
    """It would wait for ever, and hold an hour's price meanwhile."""
    sentence = (
        "It fits on l40s-48gb, but no machine here has that GPU. "
        "Choose a GGUF model, which runs without a GPU, or ask the operator."
    )
    offers = with_machines(machine("plain"))
    assert resolved(offers) == (None, "no_machine_has_it", sentence)
    error = refused(offers)
    assert (error.code, error.message) == ("no_machine_has_it", sentence)
    named = refused(offers, resources={"mode": "general", "instance_type": "l40s-48gb"})
    assert (named.code, named.message) == ("no_machine_has_it", sentence)
    assert [one.field for one in named.fields] == ["resources.instance_type"]


def test_what_a_machine_has_is_chosen_before_what_is_cheaper() -> None:
    assert resolved(with_machines(machine("large", "NVIDIA H200"))) == (
        "h200-141gb", None, "It fits on h200-141gb.",
    )  # fmt: skip
    named = refused(
        with_machines(machine("large", "NVIDIA H200")),
        resources={"mode": "general", "instance_type": "l40s-48gb"},
    )
    assert named.message == (
        "It fits on l40s-48gb, but no machine here has that GPU. It fits on h200-141gb as well."
    )


def test_a_shorter_context_helps_on_the_gpu_that_is_here() -> None:
    offers = with_machines(machine("small", "NVIDIA L4"))
    l4 = {"mode": "general", "instance_type": "l4-24gb"}
    sentence = (
        "It fits on l40s-48gb, but no machine here has that GPU. A context of 6,144 tokens fits on l4-24gb."
    )
    assert resolved(offers) == (None, "no_machine_has_it", sentence)
    error = refused(offers, resources=l4)
    assert (error.code, error.message) == (
        "model_does_not_fit",
        f"{QWEN} does not fit on l4-24gb: it is 9.1 GB short of the 31.6 GB that are needed. {sentence}",
    )
    assert resolved(offers, context_tokens=6144)[0] == "l4-24gb"


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        (
            with_machines(machine("one", "NVIDIA L40S"), used={"one"}),
            "all of it is in use. It starts as soon as there is room.",
        ),
        (
            with_machines(machine("one", "NVIDIA L40S", ready=False)),
            "the machines that could hold it do not answer. It starts as soon as one does.",
        ),
    ],
    ids=["taken", "silent"],
)
def test_what_machines_have_may_be_waited_for(offers: Offers, words: str) -> None:
    assert resolved(offers) == ("l40s-48gb", None, f"It fits on l40s-48gb, but {words}")
    wanted = ModelDeploy(model=f"hf:{QWEN}")
    choice = choose(facts_of(QWEN), wanted, offers, PUBLIC_HUB)
    assert service.container_of(wanted, choice, offers, PUBLIC_HUB).resources.instance_type == "l40s-48gb"


def test_a_template_costs_what_it_can_be_had_for() -> None:
    """The cheapest sizes are too small for the server itself, and no machine has the cheapest GPU."""
    offers = with_machines(machine("one", "NVIDIA L40S"))
    cheapest = {one.name: one.instance_type for one in templates_json(gallery(), offers)}
    assert (cheapest["llama-cpp"], cheapest["vllm"]) == ("cpu-medium", "l40s-48gb")
    without = {
        one.name: one.instance_type for one in templates_json(gallery(), with_machines(machine("one")))
    }
    assert (without["llama-cpp"], without["vllm"]) == ("cpu-medium", None)


def test_what_a_thousand_machines_hold_is_found_once() -> None:
    """Not for each template and each type again: meanwhile the API answers nobody."""
    nodes = [machine(f"m{number}", *["NVIDIA H200"] * 4, cordoned=number % 2 == 0) for number in range(1000)]
    offers = with_machines(*nodes)
    with little_work(600_000):
        cheapest = {one.name: one.instance_type for one in templates_json(gallery(), offers)}
    assert (cheapest["llama-cpp"], cheapest["vllm"]) == ("cpu-medium", "h200-141gb")
    with little_work(20_000):
        templates_json(gallery(), offers)


def test_what_repair_would_not_help_is_not_called_broken() -> None:
    """Two GPUs, one of which is broken, are never four."""
    l4 = next(one for one in default_catalogue() if one.gpu_model == "NVIDIA L4")
    four = replace(l4, name="l4-x4", gpu_count=4)
    node = machine("one", "NVIDIA L4", "NVIDIA L4")
    broken = replace(node, gpus=(replace(node.gpus[0], unusable_because="it fell off the bus"), node.gpus[1]))
    offers = Offers([four], Room([broken]), {"NVIDIA L4": gpu_facts("NVIDIA L4")}, 16.0)
    why = "l4-x4 needs 4 GPUs on one machine, and no machine has that many"
    assert offers.why_never(four) == why
    assert refused(offers).message.startswith(f"It fits on l4-x4, but {why}. ")
    two = replace(offers, types=[replace(four, name="l4-x2", gpu_count=2)])
    assert resolved(two)[:2] == ("l4-x2", None), "once it is repaired"


def test_an_unknown_type_is_refused_with_the_names_of_those_that_are_there() -> None:
    offers, wanted = (
        offered(OURS),
        ModelDeploy(model=MODEL, resources={"mode": "general", "instance_type": "nope"}),
    )
    choice = choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    with pytest.raises(InvalidInputError, match=r"'nope' is not an instance type.*; there are cpu-ours"):
        service.container_of(wanted, choice, offers, PUBLIC_HUB)


def test_an_answer_names_some_of_many_files() -> None:
    answer = {"siblings": [{"rfilename": f"{number}.gguf", "size": 1 + number} for number in range(20_000)]}
    facts = replace(facts_from(parse_reference(MODEL), answer), config=SHAPE)
    offers = offered(OURS)
    shown = plan_json(
        choose(facts, ModelDeploy(model=MODEL), offers, PUBLIC_HUB), offers, PUBLIC_HUB, NO_STARTS
    )
    assert shown.model is not None
    assert shown.model.gguf_files == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("wish", "largest_gib", "size_gib"),
    [({}, 1024, 6), ({}, 5, None), ({"cache": {"size_gib": 3}}, 1024, 3), ({"cache": None}, 1024, None)],
    ids=["weights and a fifth, and room to compile", "no room here", "as asked", "none asked"],
)
def test_it_has_a_cache_in_which_it_fits(
    wish: dict[str, Any], largest_gib: int, size_gib: int | None
) -> None:
    offers, wanted = offered(OURS), ModelDeploy(model=MODEL, **wish)
    choice = choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    made = service.container_of(wanted, choice, offers, PUBLIC_HUB, largest_gib)
    if not wish:
        # Whoever looks at the plan first is told what a deployment would have.
        assert plan_json(choice, offers, PUBLIC_HUB, NO_STARTS, largest_gib).cache == made.cache
    assert (made.cache.size_gib if made.cache is not None else None) == size_gib


def test_a_cache_that_the_download_does_not_fit_in_is_refused() -> None:
    """It would fill, and end every start."""
    offers = offered(OURS)

    def made(size_gib: int) -> None:
        wanted = ModelDeploy(model=MODEL, cache={"size_gib": size_gib})
        choice = choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
        service.container_of(wanted, choice, offers, PUBLIC_HUB, 1024)

    with pytest.raises(InvalidInputError) as refused:
        made(1)
    assert refused.value.message == (
        "cache.size_gib is too small for the 1.0 GB to download; give it at least 2 GiB."
    )
    assert [one.field for one in refused.value.fields] == ["cache.size_gib"]
    made(2)


def test_it_sleeps_if_that_is_asked() -> None:
    offers, wanted = offered(OURS), ModelDeploy(model=MODEL, sleep_after_s=600)
    choice = choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    assert service.container_of(wanted, choice, offers, PUBLIC_HUB).sleep_after_s == 600
