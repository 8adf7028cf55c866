"""Where a model fits, what is left there, and the sentence where it does not."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.catalog.capacity import InstanceType
from moorage.catalog.defaults import default_catalogue
from moorage.catalog.gpu_models import gpu_facts
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.models.facts import ModelFacts, NotUsableError, facts_from
from moorage.models.fitting import Fit, refusal, smallest_that_fits
from moorage.models.planning import PUBLIC_HUB, ModelPlan, Wish, plan, settings_for
from moorage.models.reference import parse_reference
from tests.models.configurations import CONFIGURATIONS, COUNTED, config_of

QWEN = "Qwen/Qwen2.5-7B-Instruct"
READERS = ("bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "whisper")
T4 = InstanceType("t4-16gb", "Tesla T4", 1, 4000, 16 << 30, 200 << 30, 350_000, "operator")
CATALOGUE = [T4, *default_catalogue()]


def facts(model: str, **description: Any) -> ModelFacts:
    config = config_of(model)
    answer = {
        "siblings": [{"rfilename": "model.safetensors", "size": COUNTED[model] * 2}],
        "pipeline_tag": "text-generation",
        "config": {"architectures": config["architectures"]},
        **description,
    }
    return replace(facts_from(parse_reference(f"hf:{model}"), answer), config=config)


def planned(model: str, **wish: Any) -> ModelPlan:
    return plan(facts(model), Wish(**wish), PUBLIC_HUB)


def fits_of(found: ModelPlan, types: list[InstanceType] = CATALOGUE) -> dict[str, Fit]:
    return {
        one.name: found.fit(one, gpu_facts(one.gpu_model) if one.gpu_model is not None else None)
        for one in types
    }


def refused(found: ModelPlan, fits: dict[str, Fit], name: str, here: list[str] | None = None) -> str:
    """`here` are the types that machines have; by default all."""
    reachable = [fit for one, fit in fits.items() if here is None or one in here]
    return refusal(found.demand, fits[name], list(fits.values()), reachable)


def test_the_mockups_model() -> None:
    """Qwen2.5-7B with 16,384 tokens and 16 requests at once."""
    found = planned(QWEN)
    fits = fits_of(found)
    assert [name for name, fit in fits.items() if fit.fits] == [
        "l40s-48gb",
        "a100-80gb",
        "h100-80gb",
        "h200-141gb",
    ]
    best = smallest_that_fits(list(fits.values()))
    assert best is not None
    assert best.instance_type.name == "l40s-48gb"
    assert best.memory is not None
    assert [round(one / 1e9, 1) for one in vars(best.memory).values()] == [15.2, 15.0, 1.3]
    assert fits["l4-24gb"].reason == "It is 9.1 GB short of the 31.6 GB that are needed."
    assert fits["l4-24gb"].longest_context == 6144
    assert (
        fits["t4-16gb"].reason == "It is 16.6 GB short of the 31.6 GB that are needed; Tesla T4 has no BF16."
    )
    assert fits["cpu-large"].reason == "vLLM needs a GPU."


def test_the_refusal_names_what_helps() -> None:
    found = planned(QWEN)
    fits = fits_of(found)
    sentence = refused(found, fits, "l4-24gb")
    assert sentence == (
        "Qwen/Qwen2.5-7B-Instruct does not fit on l4-24gb: it is 9.1 GB short of the 31.6 GB that are needed. "
        "It fits on l40s-48gb, or a context of 6,144 tokens."
    )
    shorter = planned(QWEN, context_tokens=6144)
    assert fits_of(shorter)["l4-24gb"].fits
    assert not fits_of(planned(QWEN, context_tokens=7168))["l4-24gb"].fits


def test_the_refusal_names_the_context_that_fits_where_no_type_does() -> None:
    found = planned(QWEN)
    fits = fits_of(found, [one for one in CATALOGUE if one.name in ("t4-16gb", "l4-24gb", "cpu-large")])
    for name in fits:
        sentence = refused(found, fits, name)
        assert sentence.startswith(f"{QWEN} does not fit on {name}: ")
        assert sentence.endswith(" A context of 6,144 tokens fits on l4-24gb.")
    assert fits_of(planned(QWEN, context_tokens=6144))["l4-24gb"].fits


@pytest.mark.parametrize(
    "model", [name for name, one in CONFIGURATIONS.items() if one["config"]["model_type"] not in READERS]
)
def test_every_real_configuration(model: str) -> None:
    """Its weights, and for each type either room or the sentence with the type that fits."""
    found = planned(model, context_tokens=1024, requests=8)
    if not found.precision.is_quantized:
        bytes_each = found.demand.precision.plain_bytes
        assert found.weights.gpu_bytes == pytest.approx(COUNTED[model] * bytes_each, rel=0.02)
    fits = fits_of(found)
    best = smallest_that_fits(list(fits.values()))
    for name, fit in fits.items():
        assert fit.memory is not None
        assert fit.memory.total_bytes >= fit.memory.weights_bytes + fit.memory.context_bytes
        if fit.fits:
            assert fit.free_bytes is not None
            assert fit.free_bytes >= 0
            continue
        sentence = refused(found, fits, name)
        assert sentence.startswith(f"{model} does not fit on {name}: ")
        expected = "No instance type" if best is None else f"It fits on {best.instance_type.name}"
        assert expected in sentence


def test_what_fits_nowhere() -> None:
    found = planned("deepseek-ai/DeepSeek-V3")
    fits = fits_of(found)
    assert not any(fit.fits for fit in fits.values())
    assert refused(found, fits, "h200-141gb").endswith(
        " No instance type here is large enough for its weights. Choose a quantised version or a smaller model."
    )
    # On eight of them it does; the weights are 671 billion bytes, and the disk has to hold them as well.
    eight = InstanceType("h200-x8", "NVIDIA H200", 8, 64_000, 1440 << 30, 1600 << 30, 40_000_000, "operator")
    fit = fits_of(found, [eight])["h200-x8"]
    assert (fit.fits, fit.reason) == (True, None)
    small_disk = fits_of(found, [replace(eight, disk_bytes=200 << 30)])["h200-x8"]
    assert small_disk.reason is not None
    assert "is too small for" in small_disk.reason


def test_advice_is_about_what_is_too_large() -> None:
    """Fewer requests help only where the weights leave room for some."""
    weights = planned("Qwen/Qwen2.5-72B-Instruct")
    small = fits_of(weights, [one for one in CATALOGUE if one.name in ("l4-24gb", "l40s-48gb")])
    assert "Choose a quantised version or a smaller model." in refused(weights, small, "l40s-48gb")
    requests = planned(QWEN, requests=1024, context_tokens=256)
    small = fits_of(requests, [one for one in CATALOGUE if one.name == "l4-24gb"])
    assert "ask for fewer requests at once" in refused(requests, small, "l4-24gb")


def test_a_refusal_names_no_type_that_no_machine_has() -> None:
    found = planned(QWEN)
    fits = fits_of(found)
    assert refused(found, fits, "l4-24gb", ["a100-80gb"]).endswith(" It fits on a100-80gb.")
    assert refused(found, fits, "t4-16gb", ["l4-24gb"]).endswith(
        " A context of 6,144 tokens fits on l4-24gb."
    )


def test_more_gpus_need_heads_to_share() -> None:
    three = InstanceType("l4-x3", "NVIDIA L4", 3, 8000, 96 << 30, 200 << 30, 2_400_000, "operator")
    assert fits_of(planned(QWEN), [three])["l4-x3"].reason == (
        "Its 28 attention heads cannot be shared by 3 GPUs."
    )
    two = fits_of(planned(QWEN), [replace(three, name="l4-x2", gpu_count=2)])["l4-x2"]
    assert two.fits
    assert two.memory is not None
    assert two.memory.weights_bytes == 7_615_616_512


def test_a_gpu_that_a_machine_reports_is_what_it_reports() -> None:
    node = NodeCapacity(
        "here", "operator", "arm64", 8000, 1 << 36, (GpuDevice("0", "NVIDIA L4", 40_000_000_000),)
    )
    assert gpu_facts("NVIDIA L4", [node]).memory_bytes == 40_000_000_000
    assert gpu_facts("NVIDIA L4").memory_bytes == 23_034 << 20
    assert gpu_facts("NVIDIA Unheard-of 96GB").memory_bytes == 96 << 30
    unknown = replace(T4, gpu_model="Something new")
    fit = fits_of(planned(QWEN), [unknown])["t4-16gb"]
    assert not fit.fits
    assert fit.reason is not None
    assert "not known here" in fit.reason


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA L4", (8, 9)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("NVIDIA H200", (9, 0)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("Tesla V100-SXM2-32GB", (7, 0)),
    ],
)
def test_gpus_by_name(name: str, capability: tuple[int, int]) -> None:
    assert gpu_facts(name).capability == capability


def test_settings_of_the_container() -> None:
    found = planned(QWEN, context_tokens=8192, requests=4)
    l40s = next(one for one in CATALOGUE if one.name == "l40s-48gb")
    settings = settings_for(found, l40s, gpu_facts("NVIDIA L40S"), PUBLIC_HUB)
    assert settings.start_command == (
        "vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0 --port 8000 --max-model-len 8192 --max-num-seqs 4 "
        "--max-num-batched-tokens 2048 --gpu-memory-utilization 0.95"
    )
    assert settings.environment == {}
    sglang = planned(QWEN, template="sglang", context_tokens=8192, requests=4)
    a100 = next(one for one in CATALOGUE if one.name == "a100-80gb")
    command = settings_for(sglang, a100, gpu_facts(a100.gpu_model or ""), PUBLIC_HUB).start_command
    assert command.endswith("--mem-fraction-static 0.90"), "93 % of 85.9 GB without the 2.0 GB of the server"
    two = replace(l40s, gpu_count=2)
    pinned = plan(
        replace(facts(QWEN), reference=parse_reference(f"hf:{QWEN}@v1.0")), Wish(), "https://hub.example"
    )
    settings = settings_for(pinned, two, gpu_facts("NVIDIA L40S"), "https://hub.example")
    assert settings.start_command.endswith("--revision v1.0 --tensor-parallel-size 2")
    assert settings.environment == {"HF_ENDPOINT": "https://hub.example"}


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"template": "nothing"}, "template_not_found"),
        ({"template": "llama-cpp"}, "template_does_not_serve"),
        ({"context_tokens": 40_000}, "context_too_long"),
    ],
)
def test_wishes_that_cannot_be_met(wish: dict[str, Any], code: str) -> None:
    with pytest.raises(NotUsableError) as refused:
        planned(QWEN, **wish)
    assert refused.value.code == code


def test_a_gguf_file_of_what_has_none() -> None:
    with pytest.raises(NotUsableError, match=r"has no GGUF files\. Name no file, or a GGUF rep") as refused:
        planned(QWEN, gguf="Q4_K_M")
    assert refused.value.code == "file_not_found"


def test_a_revision_that_no_server_fetches() -> None:
    listed = {"siblings": [{"rfilename": "m-Q4_K_M.gguf", "size": 10**9}]}
    found = facts_from(parse_reference("hf:acme/m-GGUF@v1.0"), listed)
    with pytest.raises(NotUsableError) as refused:
        plan(found, Wish(), PUBLIC_HUB)
    assert (refused.value.code, str(refused.value)) == (
        "no_template",
        "cannot be served at v1.0: llama.cpp and Ollama serve only main; leave out @v1.0",
    )


def test_the_hubs_count_comes_first_and_the_configurations_second() -> None:
    counted = planned(QWEN).weights
    assert (counted.counted_by, counted.parameters) == ("configuration", COUNTED[QWEN])
    told = plan(facts(QWEN, safetensors={"parameters": {"BF16": 8_000_000_000}}), Wish(), PUBLIC_HUB).weights
    assert (told.counted_by, told.gpu_bytes) == ("hub", 16_000_000_000)
    packed = {"parameters": {"I32": 815_857_664, "F16": 1_152_000_000}}
    awq = plan(facts("Qwen/Qwen2.5-7B-Instruct-AWQ", safetensors=packed), Wish(), PUBLIC_HUB).weights
    assert (awq.counted_by, awq.gpu_bytes) == ("hub", 815_857_664 * 4 + 1_152_000_000 * 2)
    strange = replace(facts(QWEN), config={**config_of(QWEN), "model_type": "brand_new"})
    assert plan(strange, Wish(), PUBLIC_HUB).weights.counted_by == "files"


def test_numbers_of_32_bits_are_halved_on_a_gpu_alone() -> None:
    found = plan(facts("BAAI/bge-m3", pipeline_tag="feature-extraction"), Wish(), PUBLIC_HUB)
    assert found.template.name == "embeddings"
    assert (found.weights.gpu_bytes, found.weights.cpu_bytes) == (
        COUNTED["BAAI/bge-m3"] * 2,
        COUNTED["BAAI/bge-m3"] * 4,
    )
    assert fits_of(found)["cpu-large"].fits
    assert not fits_of(found)["cpu-medium"].fits


def test_an_architecture_whose_context_is_not_known() -> None:
    state = replace(facts(QWEN), config={"model_type": "mamba", "hidden_size": 4096, "num_hidden_layers": 32})
    with pytest.raises(NotUsableError, match="does not say its num_attention_heads") as refused:
        plan(state, Wish(), PUBLIC_HUB)
    assert refused.value.code == "unknown_architecture"
