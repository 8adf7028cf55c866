"""Parameters that are counted from a configuration, against those that `transformers` makes of it (`make prove-models`)."""

import pytest

from moorage.models.parameters import active_parameters, count_parameters
from moorage.models.precision import Precision, UnknownPrecisionError, precision_of
from moorage.models.shape import UnknownShapeError
from tests.models.configurations import CONFIGURATIONS, COUNTED, config_of

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def test_every_configuration_was_counted_and_names_its_source() -> None:
    assert set(CONFIGURATIONS) == set(COUNTED), "run make prove-models"
    assert len(COUNTED) >= 12
    assert len({facts["config"]["model_type"] for facts in CONFIGURATIONS.values()}) >= 12
    for model, facts in CONFIGURATIONS.items():
        assert facts["source"].startswith("https://"), model
        assert model in facts["source"]


@pytest.mark.parametrize("model", CONFIGURATIONS)
def test_count(model: str) -> None:
    """The bound is 2 %; these families are counted to the last number."""
    assert count_parameters(config_of(model)).total == COUNTED[model]


@pytest.mark.parametrize(
    "model", [name for name in CONFIGURATIONS if "quantization_config" not in config_of(name)]
)
def test_weights_within_two_percent(model: str) -> None:
    precision = precision_of(config_of(model))
    reckoned = precision.weights_bytes(count_parameters(config_of(model)))
    assert reckoned == pytest.approx(COUNTED[model] * BYTES[precision.name], rel=0.02)


@pytest.mark.parametrize(
    ("model", "name", "gigabytes"),
    [
        # What the weight files of these repositories are said to come to; nothing here has downloaded them.
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq", 5.57),
        ("openai/gpt-oss-20b", "mxfp4", 13.76),
    ],
)
def test_quantized_weights(model: str, name: str, gigabytes: float) -> None:
    precision = precision_of(config_of(model))
    assert precision.name == name
    assert precision.weights_bytes(count_parameters(config_of(model))) / 1e9 == pytest.approx(
        gigabytes, rel=0.02
    )


@pytest.mark.parametrize(
    ("quantization", "name", "bits"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq", 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "gptq", 8 + 24 / 32),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8),
        ({"quant_method": "mxfp4"}, "mxfp4", 4.25),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb4", 4 + (8 + 32 / 256) / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb8", 8),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}},
            "fp8",
            8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}}},
            },
            "int4",
            4.125,
        ),
    ],
)  # fmt: skip
def test_bits_of_a_quantised_number(quantization: dict[str, object], name: str, bits: float) -> None:
    precision = precision_of({**config_of("Qwen/Qwen2.5-7B-Instruct"), "quantization_config": quantization})
    assert (precision.name, precision.bits_per_parameter) == (name, pytest.approx(bits))


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ("hqq", "hqq"),
        ("\x1b]0;pwned\x07\u202egnp.exe <img src=x>", "something"),
        ("a" * 41, "something"),
        (["hqq"], "something"),
        ("hqq\n", "something"),
    ],
)
def test_a_method_is_named_only_where_it_is_a_name(method: object, shown: str) -> None:
    config = {**config_of("Qwen/Qwen2.5-7B-Instruct"), "quantization_config": {"quant_method": method}}
    with pytest.raises(UnknownPrecisionError) as refused:
        precision_of(config)
    assert str(refused.value) == f"is quantised with {shown}, which is not known here"


def test_quantisation_leaves_embeddings_and_head_alone() -> None:
    count = count_parameters(config_of("Qwen/Qwen2.5-7B-Instruct"))
    embeddings = 2 * 152_064 * 3584
    assert count.total - count.matrices == pytest.approx(embeddings, rel=0.01)
    assert Precision("awq", 4).weights_bytes(count) == pytest.approx(
        count.matrices / 2 + embeddings * 2, rel=0.01
    )


def test_a_mixture_of_experts_passes_each_token_through_few() -> None:
    config = config_of("Qwen/Qwen3-30B-A3B")
    assert active_parameters(config, count_parameters(config)) / 1e9 == pytest.approx(3.3, abs=0.1)
    dense = config_of("Qwen/Qwen3-8B")
    assert active_parameters(dense, count_parameters(dense)) == COUNTED["Qwen/Qwen3-8B"]


@pytest.mark.parametrize(
    ("changes", "clause"),
    [
        ({"model_type": "mamba"}, "architecture mamba"),
        ({"hidden_size": None}, "does not say its hidden_size"),
        ({"hidden_size": -4}, "not a size"),
        ({"num_hidden_layers": True}, "not a size"),
        ({"vocab_size": 1 << 60}, "not a size"),
    ],
)
def test_what_cannot_be_counted_says_why(changes: dict[str, object], clause: str) -> None:
    with pytest.raises(UnknownShapeError, match=clause):
        count_parameters({**config_of("Qwen/Qwen2.5-7B-Instruct"), **changes})
