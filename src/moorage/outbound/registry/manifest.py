"""Manifests, indexes and image configurations, from bytes to facts. Pure.

What cannot be understood is a `ValueError`; what is understood but is no image that Moorage can run is an
`UnusableImageError`. Both messages are clauses that end a sentence about the image. All of it was written by
whoever runs the registry: nothing here is trusted to have the type, the size or the characters it should.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.kit.json_bounds import excess_of

_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIG_TYPES = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    "application/octet-stream",  # what Docker pushed before 1.10
)
_SCHEMA_1_TYPE = re.compile(r"application/vnd\.docker\.distribution\.manifest\.v1\+(json|prettyjws)")
ACCEPTED_TYPES = ", ".join((*_INDEX_TYPES, *_MANIFEST_TYPES))

_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")
_PLATFORM_WORD = re.compile(r"[a-z0-9_.-]{1,30}", re.IGNORECASE)
_EXPOSED_PORT = re.compile(r"([0-9]{1,5})(?:/tcp)?")
_MAX_ENTRIES = 1000
# An engine written in Go takes `URLs` and `urlſ` for `urls`, and would see something else here than we do.
_FIELDS = {
    field.casefold(): field
    for field in (
        *("schemaVersion", "mediaType", "config", "layers", "manifests", "digest", "size", "platform"),
        *("urls", "data", "fsLayers", "history", "blobs", "os", "architecture", "variant"),
    )
}
_MAX_LAYER_BYTES = 1 << 50
_MAX_VALUES = 20_000
_MAX_SETTINGS_BYTES = 256 << 10
"""What an image says of the containers made of it: the engine repeats it for every replica, in every list and every event."""
_MAX_BARE_BYTES = 1 << 20
"""Outside of strings, blanks included: some write it with many."""
# Which variants a plain machine of that architecture runs; amd64/v3 asks for more than every amd64 has.
_VARIANTS = {"arm64": ("", "v8"), "amd64": ("", "v1")}


class UnusableImageError(ValueError):
    pass


@dataclass(frozen=True)
class Platform:
    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def runs_on(self, architecture: str) -> bool:
        return (
            self.os == "linux"
            and self.architecture == architecture
            and self.variant in _VARIANTS.get(architecture, ("",))
        )


@dataclass(frozen=True)
class IndexEntry:
    digest: str
    platform: Platform | None


@dataclass(frozen=True)
class Index:
    entries: tuple[IndexEntry, ...]

    @property
    def platforms(self) -> tuple[Platform, ...]:
        return tuple(dict.fromkeys(entry.platform for entry in self.entries if entry.platform))


@dataclass(frozen=True)
class Layer:
    digest: str
    size_bytes: int
    """As it travels, compressed."""


@dataclass(frozen=True)
class Manifest:
    media_type: str
    config_digest: str
    layers: tuple[Layer, ...]

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)


@dataclass(frozen=True)
class ImageConfig:
    platform: Platform
    exposed_ports: tuple[int, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_manifest(body: bytes, content_type: str) -> Index | Manifest:
    document = _spelled_well(_object(_json(body), "the manifest"))
    own_type = document.get("mediaType")
    media_type = own_type if isinstance(own_type, str) else content_type.partition(";")[0].strip().lower()
    if document.get("schemaVersion") == 1 or _SCHEMA_1_TYPE.fullmatch(media_type):
        raise UnusableImageError(
            "is stored in the old format of 2015 (schema 1), which can no longer be run. Push it again with "
            "a current Docker"
        )
    # The body decides where it says what it is, so that a header cannot give the same bytes two meanings.
    if media_type in _INDEX_TYPES:
        return _index(document)
    if media_type in _MANIFEST_TYPES:
        return _manifest(document, media_type)
    raise UnusableImageError("is not a container image but another kind of artifact")


def choose_entry(index: Index, architecture: str) -> IndexEntry | None:
    """The entry that runs here; else one that does not say, whose configuration will."""
    for entry in index.entries:
        if entry.platform is not None and entry.platform.runs_on(architecture):
            return entry
    return next((entry for entry in index.entries if entry.platform is None), None)


def parse_config(body: bytes) -> ImageConfig:
    document = _spelled_well(_object(_json(body), "the image's configuration"))
    settings = _object(document.get("config") or {}, "the image's configuration")
    size_bytes = len(json.dumps(settings))
    if size_bytes > _MAX_SETTINGS_BYTES:
        raise UnusableImageError(
            f"has {size_bytes >> 10} KiB of labels, environment and commands; {_MAX_SETTINGS_BYTES >> 10} "
            "KiB is the most. Build it with fewer"
        )
    user = settings.get("User")
    return ImageConfig(
        platform=_platform(document) or Platform("", ""),
        exposed_ports=_ports(settings.get("ExposedPorts")),
        entrypoint=_arguments(settings.get("Entrypoint")),
        command=_arguments(settings.get("Cmd")),
        user=user if isinstance(user, str) else "",
        labels=_texts(settings.get("Labels")),
        environment=_environment(settings.get("Env")),
    )


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _index(document: Mapping[str, Any]) -> Index:
    entries = document.get("manifests")
    if not isinstance(entries, list) or len(entries) > _MAX_ENTRIES or "layers" in document:
        raise ValueError("the index has no proper list of manifests")
    found = []
    for raw in entries:
        entry = _reference(raw, "an entry of the index")
        platform = _platform(entry["platform"]) if entry.get("platform") is not None else None
        # Attestations stand in the index as images for unknown/unknown.
        if platform is None or platform.os != "unknown":
            found.append(IndexEntry(_digest(entry), platform))
    return Index(tuple(found))


def _manifest(document: Mapping[str, Any], media_type: str) -> Manifest:
    config = _reference(document.get("config"), "the manifest's reference to its configuration")
    if config.get("mediaType") not in _CONFIG_TYPES:
        raise UnusableImageError("is not a container image but another kind of artifact")
    layers = document.get("layers")
    if not isinstance(layers, list) or len(layers) > _MAX_ENTRIES or "manifests" in document:
        raise ValueError("the manifest has no proper list of layers")
    return Manifest(media_type, _digest(config), tuple(_layer(layer) for layer in layers))


def _layer(value: Any) -> Layer:
    layer = _reference(value, "a layer")
    size_bytes = layer.get("size")
    if type(size_bytes) is not int or not 0 <= size_bytes <= _MAX_LAYER_BYTES:
        raise ValueError("a layer has no proper size")
    return Layer(_digest(layer), size_bytes)


def _reference(value: Any, what: str) -> Mapping[str, Any]:
    """To another part of the image, which is to be had from the registry and from nobody else."""
    descriptor = _spelled_well(_object(value, what))
    if descriptor.get("urls"):
        raise UnusableImageError(
            "has layers outside its registry, which Moorage does not fetch. Build it without foreign layers"
        )
    return descriptor


def _spelled_well(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if any(_FIELDS.get(name.casefold(), name) != name for name in document):
        raise ValueError("a field's name is spelled in an unusual way")
    return document


def _json(body: bytes) -> Any:
    # Four megabytes of `[],` are JSON too, and take half a second to read.
    if excess_of(body, _MAX_VALUES, _MAX_BARE_BYTES) is not None:
        raise ValueError("it holds more than any image needs")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object")
    return value


def _digest(descriptor: Mapping[str, Any]) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError("it refers to something without a sha256 digest")
    return digest


def _platform(value: Any) -> Platform | None:
    """None where it is not said, or said in characters that no platform has (it may end in a message)."""
    if not isinstance(value, dict):
        return None
    words = [value.get(name) or "" for name in ("os", "architecture", "variant")]
    if not all(isinstance(word, str) and (not word or _PLATFORM_WORD.fullmatch(word)) for word in words):
        return None
    return Platform(*words) if words[0] and words[1] else None


def _ports(value: Any) -> tuple[int, ...]:
    if not isinstance(value, dict):
        return ()
    matches = (_EXPOSED_PORT.fullmatch(name) for name in value)
    return tuple(sorted({int(match[1]) for match in matches if match and 0 < int(match[1]) < 65536}))


def _arguments(value: Any) -> tuple[str, ...] | None:
    """An empty list is no command, as Docker has it."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return tuple(value)
    return None


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, list):
        return {}
    pairs = (entry.partition("=") for entry in value if isinstance(entry, str))
    return {name: text for name, _, text in pairs if name}
