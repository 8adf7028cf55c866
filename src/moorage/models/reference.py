"""What a person calls a model: `hf:Qwen/Qwen2.5-7B-Instruct`, with `@revision` where they want a certain one, or the address of its
page, as they copy it from the hub. Pure."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

HUB_PREFIX = "hf:"
DEFAULT_REVISION = "main"
LONGEST_REFERENCE = 600
"""Addresses of files in folders are long."""
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REVISION = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}"
_REFERENCE = re.compile(rf"hf:(?P<owner>{_PART})/(?P<name>{_PART})(?:@(?P<revision>{_REVISION}))?")
_SCHEME = re.compile(r"\Ahttps?://", re.IGNORECASE)
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_NO_MODELS = {
    "datasets": "a dataset",
    "spaces": "a space",
    "collections": "a collection",
    "papers": "a paper",
}
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,205}")
_QUANTISED_FOLDER = re.compile(
    r"(?:^|[-_./])(?:[IT]?Q[1-8](?:_[0-9A-Z]+)*|BF16|F16|F32|FP16|MXFP4)$", re.IGNORECASE
)
"""`UD-Q4_K_XL`, `Model-Q8_0`: whoever copies its address wants no other quantisation."""
_TAG = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_ODD_FILE = "names a GGUF file that Moorage cannot take: its path may have letters, digits and . _ - / alone. Name another file"
_SHAPE = "must look like hf:ORGANIZATION/NAME or hf:ORGANIZATION/NAME@REVISION"


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


@dataclass(frozen=True)
class AskedModel:
    reference: ModelReference
    file: str | None = None
    """Of a repository of GGUF files, where the address names one: its path, its folder's, or its quantisation."""


def parse_asked(text: str) -> AskedModel:
    """Also what people copy: `https://huggingface.co/org/name/blob/main/x.gguf`, `hf.co/org/name:Q4_K_M`. Raises `ValueError` with
    what to write instead."""
    if len(text) > LONGEST_REFERENCE:
        raise ValueError(_SHAPE)
    text = text.strip()
    if text[: len(HUB_PREFIX)].lower() == HUB_PREFIX:
        return AskedModel(parse_reference(HUB_PREFIX + text[len(HUB_PREFIX) :].removesuffix("/")))
    address, has_scheme = _SCHEME.subn("", text, count=1)
    host, _, path = re.split(r"[?#]", address, maxsplit=1)[0].partition("/")
    if host.lower() not in _HUB_HOSTS:
        if has_scheme:
            raise ValueError("is not at huggingface.co; write hf:ORGANIZATION/NAME")
        raise ValueError(_SHAPE)
    return _of_page([unquote(part) for part in path.rstrip("/").split("/")])


def parse_reference(text: str) -> ModelReference:
    """Raises `ValueError` with what to write instead."""
    match = _REFERENCE.fullmatch(text) if len(text) <= 300 else None
    # Two dots in a row, and a slash at an end, would lead to another path of the hub.
    if match is None or ".." in text or "//" in text or text.endswith("/"):
        raise ValueError(_SHAPE)
    return ModelReference(match["owner"], match["name"], match["revision"] or DEFAULT_REVISION)


def _of_page(parts: list[str]) -> AskedModel:
    """`parts` are those of an address at the hub."""
    if (kind := _NO_MODELS.get(parts[0])) is not None:
        raise ValueError(f"is the address of {kind}; write hf:ORGANIZATION/NAME of a model")
    if len(parts) < 2:
        raise ValueError(_SHAPE)
    owner, (name, _, tag) = parts[0], parts[1].partition(":")
    rest = parts[2:]
    revision, file = DEFAULT_REVISION, tag or None
    if len(rest) > 1 and rest[0] in ("tree", "blob", "resolve", "raw", "commit"):
        # Of those with slashes in their names, the hub itself makes refs/pr/7 and refs/convert/….
        length = 3 if rest[1] == "refs" else 1
        revision, path = "/".join(rest[1 : 1 + length]), "/".join(rest[1 + length :])
        if _names_gguf(rest[0], path):
            # Never another one instead: it may need several times the memory.
            if not _PATH.fullmatch(path) or ".." in path:
                raise ValueError(_ODD_FILE)
            file = path
    if tag and not _TAG.fullmatch(tag):
        raise ValueError(_SHAPE)
    return AskedModel(parse_reference(f"{HUB_PREFIX}{owner}/{name}@{revision}"), file)


def _names_gguf(view: str, path: str) -> bool:
    """A file, or the folder of one that comes in several."""
    if view in ("tree", "commit"):
        return _QUANTISED_FOLDER.search(path) is not None
    return path.lower().endswith(".gguf")
