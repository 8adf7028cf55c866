"""The servers that a model can be started with: one small file each in `gallery/`, checked when it is read.

A template says which image runs, how it is started, where it listens, and what it can serve. Its command is a list of arguments with
names in braces; `{model}` and its like are filled in from what the hub says, never by a shell. Adding a server is adding a file:
`tests/database/test_api_models.py` makes a container of each.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from moorage.containers.spec import ApiPath, RegistryProvider
from moorage.models.kinds import ModelFormat, ModelKind
from moorage.models.memory import ServerMemory

GALLERY = Path(__file__).parent / "gallery"
PLACEHOLDERS = frozenset(
    {
        "model",
        "revision",
        "context",
        "requests",
        "context_total",
        "gpus",
        "gpu_share",
        "static_share",
        "file",
        "tag",
        "precision",
    }
)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_PRECISIONS = frozenset(
    {"bf16", "fp16", "fp32", "fp8", "int8", "int4", "awq", "gptq", "bnb4", "bnb8", "mxfp4", "nvfp4", "gguf"}
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TemplateImage(_Strict):
    image: str = Field(max_length=300)
    provider: RegistryProvider
    device: Annotated[str, Field(pattern=r"^(gpu|cpu)$")]
    capabilities: tuple[str, ...] = ()
    """NVIDIA's compute capabilities that it is built for; none: all."""
    command: tuple[str, ...] = Field(default=(), max_length=100)
    """Where it differs from the template's."""

    @field_validator("image")
    @classmethod
    def _names_a_version(cls, value: str) -> str:
        tag = value.rpartition("/")[2].partition(":")[2]
        if not tag or tag == "latest":
            raise ValueError("must name a version: what runs tomorrow is what was tried")
        return value


class Argument(_Strict):
    """Added to the command where what it holds is known."""

    when: Annotated[str, Field(pattern=r"^(revision|tensor_parallel|precision:[a-z0-9]+)$")]
    arguments: tuple[str, ...] = Field(min_length=1)


class Template(_Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")
    title: str = Field(max_length=40)
    summary: str = Field(max_length=80)
    position: int
    """The first that serves a model is the one that is chosen."""
    kinds: tuple[ModelKind, ...] = Field(min_length=1)
    formats: tuple[ModelFormat, ...] = Field(min_length=1)
    precisions: tuple[str, ...] = Field(min_length=1)
    images: tuple[TemplateImage, ...] = Field(min_length=1)
    command: tuple[str, ...] = Field(min_length=1, max_length=100)
    optional: tuple[Argument, ...] = ()
    port: int = Field(ge=1, le=65535)
    health_path: str
    health_timeout_s: int = Field(default=1800, ge=10, le=3600)
    api_path: ApiPath
    environment: Mapping[str, str] = {}
    tensor_parallel: bool = False
    takes_revision: bool = True
    public_hub_only: bool = False
    """It fetches from the public hub whatever it is told, and has no way to be given a token."""
    fixed_bytes: int = Field(ge=0)
    """On each GPU, or of the machine's memory: driver, kernels, graphs, the program itself."""
    batch_tokens: int = Field(default=2048, ge=0, le=65536)
    whole_prompts: bool = False
    """It computes a prompt in one go, however long."""
    uses_window: bool = True
    reserves_context: bool = True
    default_requests: int = Field(default=16, ge=1, le=256)
    example: str = Field(pattern=r"^hf:")
    """A model that it serves."""

    @field_validator("precisions")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not set(value) <= _PRECISIONS:
            raise ValueError(f"must be of {', '.join(sorted(_PRECISIONS))}")
        return value

    @model_validator(mode="after")
    def _fills_in_what_is_known(self) -> "Template":
        commands = [
            self.command,
            *(one.command for one in self.images),
            *(one.arguments for one in self.optional),
        ]
        texts = [*(part for command in commands for part in command), *self.environment.values()]
        unknown = {name for text in texts for name in _PLACEHOLDER.findall(text)} - PLACEHOLDERS
        if unknown:
            raise ValueError(f"has placeholders that nobody fills in: {', '.join(sorted(unknown))}")
        return self

    @property
    def server_memory(self) -> ServerMemory:
        return ServerMemory(
            self.fixed_bytes, self.batch_tokens, self.whole_prompts, self.uses_window, self.reserves_context
        )

    def image_for(self, device: str, capability: tuple[int, int] | None) -> TemplateImage | None:
        """None where it has none for that GPU, or does not run without one."""
        for one in self.images:
            if one.device != device:
                continue
            if not one.capabilities or capability is None:
                return one
            if f"{capability[0]}.{capability[1]}" in one.capabilities:
                return one
        return None

    def command_for(
        self, image: TemplateImage, values: Mapping[str, str], present: Sequence[str]
    ) -> list[str]:
        """`present` are the conditions that hold."""
        parts = [*(image.command or self.command)]
        for one in self.optional:
            if one.when in present:
                parts += one.arguments
        return [filled(part, values) for part in parts]


def filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


@cache
def gallery() -> tuple[Template, ...]:
    """All templates, the usual choice first."""
    read = [_read(file) for file in sorted(GALLERY.glob("*.toml"))]
    return tuple(sorted(read, key=lambda template: (template.position, template.name)))


def find_template(name: str) -> Template | None:
    return next((template for template in gallery() if template.name == name), None)


def _read(file: Path) -> Template:
    template = Template.model_validate(tomllib.loads(file.read_text()))
    assert template.name == file.stem, f"{file.name} holds {template.name}"
    return template
