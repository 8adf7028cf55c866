"""Model servers that people run as they are, and the settings that each wants. Pure.

A proposal, never a guess that is made for somebody: the create flow and the CLI show it, and a person says yes. An image of
which nothing is known gets none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from moorage.containers.spec import ApiPath


@dataclass(frozen=True)
class Server:
    """As its own image starts it."""

    name: str
    images: str
    """Matches the repository, without its registry's host and tag."""
    port: int
    health_path: str
    api_path: ApiPath = ApiPath.V1
    host: str | None = None
    """Only there does the name mean this server."""
    tags: str = ".*"
    """Of which tags the image serves anything; one without a tag does."""


@dataclass(frozen=True)
class Proposal:
    server: str
    api_path: ApiPath
    port: int
    health_path: str
    message: str


_SERVERS = (
    Server(
        "vLLM", r"(.+/)?vllm(-(openai|cpu|gpu|rocm|tpu|xpu|arm64|nightly|release|repo))*", 8000, "/health"
    ),
    Server("SGLang", r"(.+/)?sglang", 30000, "/health"),
    Server("Text Generation Inference", r"(.+/)?text-generation-inference", 80, "/health"),
    Server("Text Embeddings Inference", r"(.+/)?text-embeddings-inference", 80, "/health"),
    Server("llama.cpp", r"(.+/)?llama\.cpp", 8080, "/health", tags=r"server.*"),
    Server("llama.cpp", r"(.+/)?llama-cpp-server", 8080, "/health"),
    Server("Ollama", r"(.+/)?ollama", 11434, "/"),
    Server("LMDeploy", r"(.+/)?lmdeploy", 23333, "/health"),
    Server("NVIDIA NIM", r"nim/.+", 8000, "/v1/health/ready", host="nvcr.io"),
)


def propose(image: str, exposed_ports: Sequence[int] = ()) -> Proposal | None:
    """`image` is complete. The port is the image's single EXPOSE, where that is known; else the server's usual one."""
    # A tag has no slash, and behind the host a colon begins nothing else.
    host, _, path = image.partition("/")
    repository, _, tag = path.partition("@")[0].partition(":")
    server = next((one for one in _SERVERS if _is_of(one, host, repository, tag)), None)
    if server is None:
        return None
    port = exposed_ports[0] if len(exposed_ports) == 1 else server.port
    return Proposal(
        server.name,
        server.api_path,
        port,
        server.health_path,
        f"{server.name} serves its API at {server.api_path}, listens on port {port} and answers health checks at "
        f"{server.health_path}. With API path {server.api_path}, requests to /api/v1 reach it.",
    )


def _is_of(server: Server, host: str, repository: str, tag: str) -> bool:
    named = re.fullmatch(server.images, repository) and server.host in (None, host)
    return bool(named and (not tag or re.fullmatch(server.tags, tag)))
