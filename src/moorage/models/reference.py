"""What a person calls a model: `hf:Qwen/Qwen2.5-7B-Instruct`, with `@revision` where they want a certain one. Pure."""

import re
from dataclasses import dataclass

HUB_PREFIX = "hf:"
DEFAULT_REVISION = "main"
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REFERENCE = re.compile(
    rf"hf:(?P<owner>{_PART})/(?P<name>{_PART})(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{{0,99}}))?"
)


@dataclass(frozen=True)
class ModelReference:
    owner: str
    name: str
    revision: str = DEFAULT_REVISION

    @property
    def repository(self) -> str:
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        pinned = "" if self.revision == DEFAULT_REVISION else f"@{self.revision}"
        return f"{HUB_PREFIX}{self.repository}{pinned}"


def parse_reference(text: str) -> ModelReference:
    """Raises `ValueError` with what to write instead."""
    match = _REFERENCE.fullmatch(text) if len(text) <= 300 else None
    # Two dots in a row, and a slash at an end, would lead to another path of the hub.
    if match is None or ".." in text or "//" in text or text.endswith("/"):
        raise ValueError("must look like hf:ORGANIZATION/NAME or hf:ORGANIZATION/NAME@REVISION")
    return ModelReference(match["owner"], match["name"], match["revision"] or DEFAULT_REVISION)
