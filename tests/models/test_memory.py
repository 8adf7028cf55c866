"""The memory of requests and servers, number by number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.models.memory import (
    Memory,
    RequestLoad,
    ServerMemory,
    context_bytes_per_request,
    in_words,
    longest_context_that_fits,
    memory_of,
)
from moorage.models.shape import read_shape
from tests.models.configurations import CONFIGURATIONS, config_of

VLLM = ServerMemory(fixed_bytes=1_100_000_000, batch_tokens=2048)
TOKENS = 16_384


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 28 * 2 * 4 * 128 * 2),  # grouped queries
        ("meta-llama/Llama-3.1-8B-Instruct", 32 * 2 * 8 * 128 * 2),
        ("microsoft/Phi-3.5-mini-instruct", 32 * 2 * 32 * 96 * 2),  # every head its own
        ("tiiuae/falcon-7b-instruct", 32 * 2 * 1 * 64 * 2),  # one for all
        ("tiiuae/falcon-40b-instruct", 60 * 2 * 8 * 64 * 2),
        ("deepseek-ai/DeepSeek-V3", 61 * (512 + 64) * 2),  # latent
        ("openai-community/gpt2", 12 * 2 * 12 * 64 * 2),
    ],
)
def test_context_of_a_token(model: str, bytes_per_token: int) -> None:
    shape = read_shape(config_of(model))
    assert context_bytes_per_request(shape, 100, 2) == 100 * bytes_per_token
    assert context_bytes_per_request(shape, 100, 1) == 50 * bytes_per_token


@pytest.mark.parametrize(
    ("model", "whole", "windowed", "window"),
    [
        ("google/gemma-2-9b-it", 21, 21, 4096),
        ("google/gemma-3-1b-it", 4, 22, 512),
        ("openai/gpt-oss-20b", 12, 12, 128),
        ("mistralai/Mistral-7B-Instruct-v0.1", 0, 32, 4096),
        ("CohereForAI/c4ai-command-r7b-12-2024", 8, 24, 4096),
        ("Qwen/Qwen2.5-7B-Instruct", 28, 0, 1),  # it names a window and does not use it
    ],
)
def test_layers_with_a_window_keep_no_more_than_that(
    model: str, whole: int, windowed: int, window: int
) -> None:
    shape = read_shape(config_of(model))
    layer = 2 * shape.key_value_heads * shape.head_size * 2
    tokens = 8192
    kept = whole * tokens + windowed * window
    assert context_bytes_per_request(shape, tokens, 2) == layer * kept
    assert context_bytes_per_request(shape, tokens, 2, uses_window=False) == layer * tokens * (
        whole + windowed
    )


def test_a_listener_keeps_what_it_heard() -> None:
    shape = read_shape(config_of("openai/whisper-large-v3"))
    assert context_bytes_per_request(shape, 448, 2) == 32 * 2 * 20 * 64 * 2 * (448 + 1500)


def test_a_model_that_sees_is_published_with_the_differences() -> None:
    """https://huggingface.co/google/gemma-3-4b-it/blob/main/config.json has no number of heads."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10_240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    shape = read_shape({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}})
    assert (shape.heads, shape.key_value_heads, shape.head_size) == (8, 4, 256)
    assert (shape.windowed_layers, shape.window, shape.longest_context) == (29, 1024, 131_072)
    assert context_bytes_per_request(shape, 8192, 2) == 2 * 4 * 256 * 2 * (5 * 8192 + 29 * 1024)


def test_the_worked_example() -> None:
    shape = read_shape(config_of("Qwen/Qwen2.5-7B-Instruct"))
    load = RequestLoad(TOKENS, 16)
    memory = memory_of(7_615_616_512 * 2, shape, load, VLLM)
    assert in_words(memory, load) == (
        "weights 15.2 GB + context 16,384 tokens × 16 requests 15.0 GB + server 1.3 GB = 31.6 GB"
    )
    assert context_bytes_per_request(shape, TOKENS, 2) / 1e9 == pytest.approx(0.94, abs=0.005)


def test_gpus_share_weights_and_heads() -> None:
    shape, load = read_shape(config_of("Qwen/Qwen2.5-72B-Instruct")), RequestLoad(8192, 8)
    one, four = (memory_of(10**11, shape, load, VLLM, gpus=gpus) for gpus in (1, 4))
    sixteen = memory_of(10**11, shape, load, VLLM, gpus=16)
    assert four.weights_bytes == one.weights_bytes / 4
    assert four.context_bytes == one.context_bytes / 4
    assert sixteen.context_bytes == one.context_bytes / 8, "it has eight heads to deal out"
    latent = read_shape(config_of("deepseek-ai/DeepSeek-V3"))
    shared, alone = (memory_of(10**11, latent, load, VLLM, gpus=gpus).context_bytes for gpus in (8, 1))
    assert shared == alone, "every GPU has the latent vector"


def test_a_server_that_keeps_nothing_for_requests() -> None:
    shape = read_shape(config_of("BAAI/bge-m3"))
    memory = memory_of(
        1_135_509_504, shape, RequestLoad(8192, 64), ServerMemory(800_000_000, 16_384, reserves_context=False)
    )
    assert memory.context_bytes == 0
    assert in_words(memory, RequestLoad(8192, 64)) == "weights 1.1 GB + server 1.2 GB = 2.3 GB"


@given(
    st.sampled_from(sorted(CONFIGURATIONS)),
    st.integers(0, 10**11),
    st.integers(1, 64),
    st.integers(1, 200_000),
)
def test_the_longest_context_fits_and_the_next_does_not(
    model: str, room: int, requests: int, asked: int
) -> None:
    shape, load = read_shape(config_of(model)), RequestLoad(asked, requests)
    longest = longest_context_that_fits(room, 10**9, shape, load, VLLM)

    def needed(tokens: int) -> Memory:
        return memory_of(10**9, shape, RequestLoad(tokens, requests), VLLM)

    if longest is not None:
        assert longest <= asked
        assert needed(longest).total_bytes <= room
    after = (longest or 0) + 1024
    assert after > asked or needed(after).total_bytes > room
