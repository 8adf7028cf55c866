"""Which instance type a model is put on, of those that it fits on, and what comes of it."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.catalog.capacity import InstanceType
from moorage.containers.capacity_repository import Room
from moorage.engines.base import NodeCapacity
from moorage.kit.errors import ModelError
from moorage.models import service
from moorage.models.facts import ModelFacts, facts_from
from moorage.models.planning import PUBLIC_HUB
from moorage.models.reference import parse_reference
from moorage.models.schemas import ModelDeploy
from moorage.models.service import Offers
from moorage.models.shown import PastStarts, plan_json

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
    choice = service.choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
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


def test_an_answer_names_some_of_many_files() -> None:
    answer = {"siblings": [{"rfilename": f"{number}.gguf", "size": 1 + number} for number in range(20_000)]}
    facts = replace(facts_from(parse_reference(MODEL), answer), config=SHAPE)
    offers = offered(OURS)
    shown = plan_json(
        service.choose(facts, ModelDeploy(model=MODEL), offers, PUBLIC_HUB), offers, PUBLIC_HUB, NO_STARTS
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
    choice = service.choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    made = service.container_of(wanted, choice, offers, PUBLIC_HUB, largest_gib)
    if not wish:
        # Whoever looks at the plan first is told what a deployment would have.
        assert plan_json(choice, offers, PUBLIC_HUB, NO_STARTS, largest_gib).cache == made.cache
    assert (made.cache.size_gib if made.cache is not None else None) == size_gib


def test_it_sleeps_if_that_is_asked() -> None:
    offers, wanted = offered(OURS), ModelDeploy(model=MODEL, sleep_after_s=600)
    choice = service.choose(facts_of_private_model(), wanted, offers, PUBLIC_HUB)
    assert service.container_of(wanted, choice, offers, PUBLIC_HUB).sleep_after_s == 600
