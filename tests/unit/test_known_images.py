import pytest

from moorage.containers.known_images import propose


@pytest.mark.parametrize(
    ("image", "server", "port", "health_path"),
    [
        ("docker.io/vllm/vllm-openai:v0.11.0", "vLLM", 8000, "/health"),
        ("docker.io/vllm/vllm-openai@sha256:" + 64 * "0", "vLLM", 8000, "/health"),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9", "vLLM", 8000, "/health"),
        ("docker.io/lmsysorg/sglang:latest", "SGLang", 30000, "/health"),
        ("docker.io/lmsysorg/sglang@sha256:" + 64 * "0", "SGLang", 30000, "/health"),
        ("registry.example.com:5000/ollama/ollama@sha256:" + 64 * "0", "Ollama", 11434, "/"),
        ("ghcr.io/huggingface/text-generation-inference:3.3", "Text Generation Inference", 80, "/health"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama.cpp", 8080, "/health"),
        ("ghcr.io/ggml-org/llama.cpp@sha256:" + 64 * "0", "llama.cpp", 8080, "/health"),
        ("docker.io/ollama/ollama:latest", "Ollama", 11434, "/"),
        ("registry.example.com:5000/mirror/vllm/vllm-openai:1", "vLLM", 8000, "/health"),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1", "NVIDIA NIM", 8000, "/v1/health/ready"),
    ],
)
def test_a_known_server(image: str, server: str, port: int, health_path: str) -> None:
    proposal = propose(image)
    assert proposal is not None
    assert (proposal.server, proposal.port, proposal.health_path) == (server, port, health_path)
    assert proposal.api_path == "/v1"
    assert f"port {port}" in proposal.message


def test_the_image_knows_its_port_best() -> None:
    proposal = propose("docker.io/vllm/vllm-openai:v1", (9000,))
    assert proposal is not None
    assert proposal.port == 9000
    two = propose("docker.io/vllm/vllm-openai:v1", (9000, 9001))
    assert two is not None
    assert two.port == 8000


@pytest.mark.parametrize(
    "image",
    [
        "docker.io/library/nginx:1",
        "local/chat:latest",
        "ghcr.io/acme/my-ollama-ui:1",
        "ghcr.io/acme/vllm-client-ui:1",
        "docker.io/acme/not-vllm:latest",
        "ghcr.io/ggml-org/llama.cpp:light",
        "ghcr.io/ggml-org/llama.cpp:full-cuda",
        "registry.example.com/nim/anything:1",
    ],
)
def test_of_others_nothing_is_guessed(image: str) -> None:
    assert propose(image) is None
