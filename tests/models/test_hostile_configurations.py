"""A configuration is a stranger's file: whatever stands in it, an answer comes after little work."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from moorage.models.facts import ModelFacts, NotUsableError, facts_from
from moorage.models.parameters import count_parameters
from moorage.models.planning import PUBLIC_HUB, Wish, plan
from moorage.models.precision import precision_of
from moorage.models.reference import parse_reference
from moorage.models.shape import MOST_LAYERS
from tests.models.configurations import CONFIGURATIONS, config_of
from tests.models.little_work import little_work

ONE_OF_EACH_FAMILY = {config["config"]["model_type"]: name for name, config in CONFIGURATIONS.items()}


def facts_of(config: dict[str, Any]) -> ModelFacts:
    answer = {"siblings": [{"rfilename": "model.safetensors", "size": 1}], "pipeline_tag": "text-generation"}
    return replace(facts_from(parse_reference("hf:acme/thing"), answer), config=config)


def answered(config: dict[str, Any]) -> None:
    """A plan or a sentence."""
    facts = facts_of(config)
    with little_work(), suppress(NotUsableError):
        plan(facts, Wish(), PUBLIC_HUB)


@pytest.mark.parametrize("family", ONE_OF_EACH_FAMILY)
def test_a_huge_number_in_any_field(family: str) -> None:
    config = config_of(ONE_OF_EACH_FAMILY[family])
    fields = [name for name, value in config.items() if type(value) is int]
    assert fields
    for name in fields:
        answered({**config, name: 1 << 40})
        answered({"model_type": "sees_too", "text_config": {**config, name: 1 << 40}})
    # What just passes for a number of layers, in all of them at once.
    answered({**config, **dict.fromkeys(fields, MOST_LAYERS)})


class Compared(int):
    """Counts how often it is looked at."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_long_list_of_layers_is_passed_through_once() -> None:
    config = config_of("Qwen/Qwen3-30B-A3B")
    before = count_parameters(config)
    Compared.times = 0
    listed = [Compared(one + 1000) for one in range(10_000)]
    assert count_parameters({**config, "mlp_only_layers": listed}) == before
    assert Compared.times <= 2 * len(listed)
    fewer = count_parameters({**config, "mlp_only_layers": [0, "1", None, 5]})
    assert fewer.experts == before.experts * 46 // 48


@pytest.mark.parametrize("odd", ["x", True, -5, [1], {"a": 1}, 1.5, 1 << 60])
@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "deepseek_v3", "bert"])
def test_anything_else_than_a_number_in_any_field(family: str, odd: object) -> None:
    """A plan or a sentence, and no other error: also in fields that the family does not have."""
    config = config_of(ONE_OF_EACH_FAMILY[family])
    for name in {*config, "num_experts", "num_experts_per_tok", "num_local_experts", "sliding_window"}:
        answered({**config, name: odd})


def test_odd_experts_do_not_change_the_memory() -> None:
    config = config_of("Qwen/Qwen3-8B")
    odd = plan(facts_of({**config, "num_experts": "x"}), Wish(), PUBLIC_HUB)
    whole = plan(facts_of(config), Wish(), PUBLIC_HUB)
    assert odd.weights == replace(whole.weights, active_parameters=None)


class Endless(list[int]):
    """As long as a file may be: to write it out takes tens of milliseconds."""

    def __repr__(self) -> str:
        raise AssertionError("nobody wants to read it")


@pytest.mark.parametrize("modelopt", [{"quant_algo": Endless([0])}, {"quantization": Endless([0])}])
def test_nothing_is_written_out_to_look_for_a_word_in_it(modelopt: dict[str, object]) -> None:
    config = config_of("Qwen/Qwen3-8B")
    answered({**config, "model_type": Endless([0])})
    answered({"model_type": Endless([0]), "text_config": {**config, "model_type": Endless([0])}})
    answered({**config, "quantization_config": {"quant_method": Endless([0])}})
    answered({**config, "quantization_config": {"quant_method": "modelopt", **modelopt}})


@pytest.mark.parametrize(
    "quantization",
    [{"quant_algo": "NVFP4"}, {"quantization": {"quant_algo": "NVFP4"}}, {"quantization": "NVFP4"}],
)
def test_a_nested_word_is_found(quantization: dict[str, object]) -> None:
    config = {
        **config_of("Qwen/Qwen3-8B"),
        "quantization_config": {"quant_method": "modelopt", **quantization},
    }
    assert precision_of(config).name == "nvfp4"
