"""A model hub on a loopback port, with the layout and the answers of the real one: descriptions, files of a revision, redirects of
large files, gated and private repositories, and the headers that say what an error means."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.models.configurations import COUNTED, config_of
from tests.servers import serving

TOKEN = "hf_reader_of_private_things"
STRANGERS_TOKEN = "hf_somebody_else"
COMMIT = "a" * 40
TINY = "acme/bge-tiny"
"""The only weights in safetensors that anybody here downloads."""
TINY_CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "vocab_size": 1000,
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
_LARGE = 1 << 20
GGUF_ENTRIES: dict[str, Any] = {
    "general.architecture": "qwen2",
    "general.name": "qwen2.5-7b-instruct",
    "qwen2.block_count": 28,
    "qwen2.context_length": 32768,
    "qwen2.embedding_length": 3584,
    "qwen2.feed_forward_length": 18944,
    "qwen2.attention.head_count": 28,
    "qwen2.attention.head_count_kv": 4,
    "qwen2.rope.freq_base": 1_000_000.0,
    "tokenizer.ggml.tokens": ["a" * 50] * 5000,
}


@dataclass
class Repository:
    files: dict[str, bytes | int] = field(default_factory=dict)
    """Contents, or the size of one that nobody here downloads."""
    description: dict[str, Any] = field(default_factory=dict)
    gated: bool | str = False
    private: bool = False
    revisions: tuple[str, ...] = ("main", "v1.0", COMMIT)


class Hub:
    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Path and Authorization of each request."""
        self.broken: Response | None = None
        """Answers everything, where it is set."""
        self.stalls = False
        """Large files begin, and never come to their end."""
        self.app = Starlette(
            routes=[
                Route("/api/models/{owner}/{name}/revision/{revision:path}", self._describe),
                Route("/{owner}/{name}/resolve/{revision}/{path:path}", self._resolve),
                Route("/cdn/{owner}/{name}/{path:path}", self._serve),
            ]
        )

    def add(self, model: str, **how: Any) -> Repository:
        """One of the real configurations, with its weights in one file."""
        config = config_of(model)
        count = COUNTED[model]
        kind = {"float16": "F16", "float32": "F32"}.get(config.get("torch_dtype", ""), "BF16")
        repository = Repository(
            files={
                "config.json": json.dumps(config).encode(),
                "README.md": b"# A model",
                "tokenizer.json": b"{}",
                "model.safetensors": count * (4 if kind == "F32" else 2) + 4096,
            },
            description={
                "pipeline_tag": "text-generation",
                "library_name": "transformers",
                "cardData": {"license": "apache-2.0"},
                "safetensors": {"parameters": {kind: count}, "total": count},
                "config": {"architectures": config["architectures"], "model_type": config["model_type"]},
            },
        )
        for name, value in how.items():
            setattr(repository, name, value)
        self.repositories[model] = repository
        return repository

    def add_examples(self) -> None:
        """A model for every template, as real repositories of that kind look."""
        for model in ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-Instruct-v0.3"):
            self.add(model)
        for model in ("BAAI/bge-m3", "BAAI/bge-large-en-v1.5"):
            self.add(model).description["pipeline_tag"] = "feature-extraction"
        self.repositories[TINY] = Repository(
            files={
                "config.json": json.dumps(TINY_CONFIG).encode(),
                "tokenizer.json": b"{}",
                "model.safetensors": safetensors_file({"embeddings.word_embeddings.weight": (1000, 512)}),
            },
            description={
                "pipeline_tag": "feature-extraction",
                "library_name": "sentence-transformers",
                "cardData": {"license": "mit"},
                "safetensors": {"parameters": {"BF16": 512_000}, "total": 512_000},
                "config": {"architectures": ["BertModel"], "model_type": "bert"},
            },
        )
        self.add("openai/whisper-large-v3").description["pipeline_tag"] = "automatic-speech-recognition"
        for model in ("Qwen/Qwen2.5-7B-Instruct-GGUF", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"):
            name = model.partition("/")[2].lower().removesuffix("-gguf")
            self.repositories[model] = Repository(files={f"{name}-q4_k_m.gguf": gguf_file(GGUF_ENTRIES)})
        self.repositories["Systran/faster-whisper-large-v3"] = Repository(
            files={
                "model.bin": 3_087_284_237,
                "config.json": b'{"alignment_heads": []}',
                "vocabulary.json": b"[]",
            },
            description={"library_name": "ctranslate2", "pipeline_tag": "automatic-speech-recognition"},
        )
        self.repositories["black-forest-labs/FLUX.1-schnell"] = Repository(
            files={
                "model_index.json": b'{"_class_name": "FluxPipeline"}',
                "flux1-schnell.safetensors": 23_782_506_688,
                "transformer/diffusion_pytorch_model-00001-of-00003.safetensors": 9_962_580_296,
                "transformer/diffusion_pytorch_model-00002-of-00003.safetensors": 9_949_328_904,
                "transformer/diffusion_pytorch_model-00003-of-00003.safetensors": 3_870_584_832,
                "text_encoder/model.safetensors": 246_144_352,
                "text_encoder_2/model-00001-of-00002.safetensors": 4_994_582_224,
                "text_encoder_2/model-00002-of-00002.safetensors": 4_530_066_360,
                "vae/diffusion_pytorch_model.safetensors": 167_666_902,
            },
            description={"library_name": "diffusers", "pipeline_tag": "text-to-image"},
        )

    def _find(self, request: Request) -> Repository | Response:
        name = f"{request.path_params['owner']}/{request.path_params['name']}"
        authorization = request.headers.get("authorization")
        self.asked.append((request.url.path, authorization))
        if self.broken is not None:
            return self.broken
        if authorization is not None and authorization not in (
            f"Bearer {TOKEN}",
            f"Bearer {STRANGERS_TOKEN}",
        ):
            return _error(401, "", "Invalid credentials in Authorization header")
        repository = self.repositories.get(name)
        hidden = repository is not None and repository.private and authorization != f"Bearer {TOKEN}"
        if repository is None or hidden:
            # The real one says 401 to strangers, so that nobody learns which private names exist.
            return _error(404 if authorization else 401, "RepoNotFound", "Repository not found")
        revision = request.path_params.get("revision", COMMIT)
        return (
            repository
            if revision in repository.revisions
            else _error(404, "RevisionNotFound", "Invalid rev id")
        )

    async def _describe(self, request: Request) -> Response:
        repository = self._find(request)
        if isinstance(repository, Response):
            return repository
        siblings = [
            {"rfilename": name} | ({"size": _size(content)} if request.query_params.get("blobs") else {})
            for name, content in repository.files.items()
        ]
        described = {
            "sha": COMMIT,
            "gated": repository.gated,
            "private": repository.private,
            "siblings": siblings,
        }
        return JSONResponse(described | repository.description)

    async def _resolve(self, request: Request) -> Response:
        repository = self._find(request)
        if isinstance(repository, Response):
            return repository
        authorization = request.headers.get("authorization")
        if repository.gated and authorization != f"Bearer {TOKEN}":
            return _error(403 if authorization else 401, "GatedRepo", "Access to model is restricted")
        path = request.path_params["path"]
        if path not in repository.files:
            return _error(404, "EntryNotFound", "Entry not found")
        if path.endswith((".gguf", ".safetensors")):
            owner, name = request.path_params["owner"], request.path_params["name"]
            return RedirectResponse(f"/cdn/{owner}/{name}/{path}", 302)
        return await self._serve(request)

    async def _serve(self, request: Request) -> Response:
        name = f"{request.path_params['owner']}/{request.path_params['name']}"
        content = self.repositories[name].files[request.path_params["path"]]
        assert isinstance(content, bytes), "nobody here downloads weights"
        return StreamingResponse(_without_end(content)) if self.stalls else Response(content)


@asynccontextmanager
async def running_hub() -> AsyncIterator[tuple[Hub, str]]:
    hub = Hub()
    async with serving(hub.app) as url:
        yield hub, url


def gguf_file(entries: dict[str, Any], size: int = _LARGE) -> bytes:
    """A real header, and nothing behind it."""
    body = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    for name, value in entries.items():
        body += _gguf_text(name)
        if isinstance(value, str):
            body += struct.pack("<I", 8) + _gguf_text(value)
        elif isinstance(value, list):
            body += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_gguf_text(one) for one in value)
        elif isinstance(value, float):
            body += struct.pack("<If", 6, value)
        else:
            body += struct.pack("<II", 4, value)
    return body.ljust(size, b"\0")


def safetensors_file(tensors: dict[str, tuple[int, int]]) -> bytes:
    """In BF16: a real header, and as many bytes behind it as it says."""
    header, at = dict[str, Any](), 0
    for name, (rows, columns) in tensors.items():
        size = rows * columns * 2
        header[name] = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + bytes(range(256)) * (at // 256)


def _gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


async def _without_end(content: bytes) -> AsyncIterator[bytes]:
    yield content[:1000]
    await asyncio.Event().wait()


def _size(content: bytes | int) -> int:
    return content if isinstance(content, int) else len(content)


def _error(status: int, code: str, message: str) -> Response:
    headers = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
    return JSONResponse({"error": message}, status, headers)
