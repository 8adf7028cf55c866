"""What a hub says of a model, from its answer to what is planned with. Pure.

The answer is somebody else's text: nothing of it is believed to have the right type, and nothing of it is repeated to people except
names that were checked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moorage.models.kinds import ModelFormat, ModelKind
from moorage.models.reference import HUB_PREFIX, ModelReference, parse_reference
from moorage.models.shape import Config

ADAPTER = "not_a_whole_model"
ADAPTER_CONFIG = "adapter_config.json"
MOST_FILES = 20_000
_LARGEST_FILE = 1 << 50
_KINDS = {
    "text-generation": ModelKind.CHAT,
    "image-text-to-text": ModelKind.CHAT,
    "any-to-any": ModelKind.CHAT,
    "conversational": ModelKind.CHAT,
    "feature-extraction": ModelKind.EMBEDDING,
    "sentence-similarity": ModelKind.EMBEDDING,
    "text-ranking": ModelKind.EMBEDDING,
    "automatic-speech-recognition": ModelKind.SPEECH,
    "text-to-image": ModelKind.IMAGE,
    "image-to-image": ModelKind.IMAGE,
}
_ENCODERS = re.compile(
    r"(Bert|Roberta|RoBERTa|Mpnet|MPNet|NomicBert|New)[A-Za-z0-9]*(Model|ForSequenceClassification)"
)
_SHARD = re.compile(r"-[0-9]{5}(-of-[0-9]{5})$")
_GGUF_TAG = re.compile(r"(?:^|[-_.])((?:I?Q[2-8](?:_[0-9KSMLX]+)*)|BF16|F16|F32|FP16|MXFP4)$", re.IGNORECASE)
_PREFERRED_GGUF = ("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "MXFP4", "Q8_0")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,250}")


class NotUsableError(ValueError):
    """`code` and a clause about the model: `hf:a/b` **is an adapter, not a whole model**."""

    def __init__(self, code: str, clause: str) -> None:
        super().__init__(clause)
        self.code = code


@dataclass(frozen=True)
class GgufFile:
    """One quantisation; a large one comes in several files, of which the first is named."""

    name: str
    tag: str
    size_bytes: int


@dataclass(frozen=True)
class ModelFacts:
    reference: ModelReference
    commit: str | None
    kind: ModelKind
    format: ModelFormat
    gated: bool
    private: bool
    license: str | None
    files: int
    download_bytes: int | None
    """Of the files that a server fetches; None where the hub does not say."""
    tensor_types: Mapping[str, int]
    """How many numbers of each type, as the hub counted."""
    architecture: str | None
    gguf: tuple[GgufFile, ...] = ()
    has_gguf: bool = False
    """Also where the format is another, because none of them was asked for."""
    config: Config = field(default_factory=dict)
    config_bytes: int = 0
    """Of the text that it was read from."""

    @property
    def parameters_of_hub(self) -> int | None:
        return sum(self.tensor_types.values()) or None

    @property
    def text_bytes(self) -> int:
        """About as much of strangers' text is held here: the rest is bounded, and small beside it."""
        return 2048 + self.config_bytes + sum(len(one.name) + len(one.tag) + 64 for one in self.gguf)


def facts_from(reference: ModelReference, answer: object, gguf_wanted: str | None = None) -> ModelFacts:
    """`gguf_wanted` is the file or tag that was asked for: of a repository that has other weights too, it is the GGUF files that are
    described. Raises `NotUsableError`."""
    if not isinstance(answer, Mapping):
        raise NotUsableError("hub_misbehaves", "has a description that cannot be read")
    files = _files(answer.get("siblings"))
    names = set(files)
    gguf = _gguf_files(files)
    model_format = ModelFormat.GGUF if gguf and gguf_wanted is not None else _format(answer, names, gguf)
    weights = _weight_files(model_format, files)
    architecture = _architecture(answer)
    license_name = _text(answer.get("cardData"), "license") or _tagged(answer.get("tags"), "license:")
    return ModelFacts(
        reference=reference,
        commit=commit_of(answer.get("sha")),
        kind=_kind(answer, model_format, architecture),
        format=model_format,
        gated=answer.get("gated") not in (False, None),
        private=answer.get("private") is True,
        license=_matching(_LICENSE, license_name),
        files=len(files),
        download_bytes=sum(weights.values()) if weights and all(weights.values()) else None,
        tensor_types=_tensor_types(answer.get("safetensors")),
        architecture=architecture,
        gguf=gguf if model_format is ModelFormat.GGUF else (),
        has_gguf=bool(gguf),
    )


def adapter_of(config: object) -> NotUsableError:
    """`config` is its `adapter_config.json`, where that was read: it says for which model the adapter was made."""
    base = config.get("base_model_name_or_path") if isinstance(config, Mapping) else None
    named = ""
    if isinstance(base, str):
        try:
            named = f", {parse_reference(f'{HUB_PREFIX}{base}')}"
        except ValueError:  # Often a folder on its author's machine.
            named = ""
    return NotUsableError(
        ADAPTER, f"is an adapter, not a whole model. Deploy the model that it was made for{named}"
    )


def commit_of(value: object) -> str | None:
    return _matching(_COMMIT, value)


def chosen_gguf(files: Sequence[GgufFile], wanted: str | None) -> GgufFile:
    """By its name, its folder or its tag (`Q4_K_M`); without one the usual compromise of four bits."""
    if wanted is not None:
        return _named_gguf(files, wanted)
    for tag in _PREFERRED_GGUF:
        for one in files:
            if one.tag.upper() == tag:
                return one
    return min(files, key=lambda one: (one.size_bytes, one.name))


def _named_gguf(files: Sequence[GgufFile], wanted: str) -> GgufFile:
    first = _first_shard(wanted)
    # Before the tags: two folders may hold the same tag, such as `Q2_K` and `UD-Q2_K`.
    in_folder = [one for one in files if one.name.rpartition("/")[0] == wanted]
    found = [one for one in files if one.name == first]
    found += in_folder if len(in_folder) == 1 else []
    found += [one for one in files if one.tag.upper() == wanted.upper()]
    if not found:
        raise NotUsableError("file_not_found", f"has no GGUF file {wanted[:100]!r}; it has {_some(files)}")
    return found[0]


def _first_shard(name: str) -> str:
    """`m-00002-of-00003.gguf` → `m-00001-of-00003.gguf`: a server opens the others by itself."""
    whole, dot, ending = name.rpartition(".")
    return _SHARD.sub(r"-00001\1", whole) + dot + ending


def _some(files: Sequence[GgufFile]) -> str:
    tags = [one.tag for one in files[:12]]
    return ", ".join(tags) + (" and more" if len(files) > len(tags) else "")


def _files(siblings: object) -> dict[str, int]:
    """Each file's size, 0 where it is not said."""
    if not isinstance(siblings, list):
        raise NotUsableError("not_a_model", "has no list of files")
    found = {}
    for one in siblings[:MOST_FILES]:
        if not isinstance(one, Mapping):
            continue
        name, size = one.get("rfilename"), one.get("size")
        if isinstance(name, str) and _FILE_NAME.fullmatch(name) and ".." not in name:
            known = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= _LARGEST_FILE
            found[name] = size if known and isinstance(size, int) else 0
    return found


def _format(answer: Mapping[str, Any], names: set[str], gguf: Sequence[GgufFile]) -> ModelFormat:
    if "model_index.json" in names:
        return ModelFormat.DIFFUSERS
    if answer.get("library_name") == "ctranslate2" and "model.bin" in names:
        return ModelFormat.CTRANSLATE2
    if _root_weights(names):
        return ModelFormat.SAFETENSORS
    if gguf:
        return ModelFormat.GGUF
    if ADAPTER_CONFIG in names:
        raise adapter_of(None)
    raise NotUsableError("not_a_model", "has no weights that a server here can load (safetensors or GGUF)")


def _root_weights(names: set[str]) -> list[str]:
    """What a server loads: one set of shards, and no second copy of them in another layout."""
    root = [name for name in names if "/" not in name]
    for beginning, ending in (("model", ".safetensors"), ("", ".safetensors"), ("pytorch_model", ".bin")):
        found = [
            name
            for name in root
            if name.startswith(beginning)
            and name.endswith(ending)
            and not name.startswith(("adapter_model", "consolidated", "training_args"))
        ]
        if found:
            return found
    return []


def _weight_files(model_format: ModelFormat, files: Mapping[str, int]) -> dict[str, int]:
    if model_format is ModelFormat.SAFETENSORS:
        return {name: files[name] for name in _root_weights(set(files))}
    if model_format is ModelFormat.CTRANSLATE2:
        return {"model.bin": files["model.bin"]}
    if model_format is ModelFormat.DIFFUSERS:
        parts = {
            name: size
            for name, size in files.items()
            if name.endswith(".safetensors") and name.count("/") == 1
        }
        # The same part may be there in two precisions; servers load the plain one.
        plain = {
            name: size for name, size in parts.items() if not re.search(r"\.(fp16|bf16|non_ema)[.-]", name)
        }
        return plain or parts
    return {}


def _gguf_files(files: Mapping[str, int]) -> tuple[GgufFile, ...]:
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for name in sorted(files):
        if not name.lower().endswith(".gguf") or "mmproj" in name.lower() or not files[name]:
            continue
        whole = _SHARD.sub("", name[: -len(".gguf")])
        sizes[whole] = sizes.get(whole, 0) + files[name]
        first.setdefault(whole, name)
    return tuple(
        GgufFile(first[whole], _tag(whole), size)
        for whole, size in sorted(sizes.items(), key=lambda one: (one[1], one[0]))
    )


def _tag(name: str) -> str:
    found = _GGUF_TAG.search(name.rpartition("/")[2])
    return found[1].upper() if found is not None else name.rpartition("/")[2]


def _kind(answer: Mapping[str, Any], model_format: ModelFormat, architecture: str | None) -> ModelKind:
    tag = answer.get("pipeline_tag")
    if isinstance(tag, str) and tag in _KINDS:
        return _KINDS[tag]
    if model_format is ModelFormat.DIFFUSERS:
        return ModelKind.IMAGE
    if model_format is ModelFormat.GGUF:
        return ModelKind.CHAT
    if architecture is not None:
        if "Whisper" in architecture:
            return ModelKind.SPEECH
        if architecture.endswith(("ForCausalLM", "LMHeadModel")):
            return ModelKind.CHAT
        if _ENCODERS.fullmatch(architecture):
            return ModelKind.EMBEDDING
    said = f"for {tag}" if isinstance(tag, str) and re.fullmatch(r"[a-z0-9-]{1,40}", tag) else "for something"
    raise NotUsableError("no_template", f"is {said}, which no template here serves")


def _architecture(answer: Mapping[str, Any]) -> str | None:
    config = answer.get("config")
    listed = config.get("architectures") if isinstance(config, Mapping) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return _matching(re.compile(r"[A-Za-z0-9_]{1,80}"), first)


def _tensor_types(safetensors: object) -> dict[str, int]:
    counts = safetensors.get("parameters") if isinstance(safetensors, Mapping) else None
    if not isinstance(counts, Mapping):
        return {}
    return {
        str(name)[:20]: count
        for name, count in list(counts.items())[:32]
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= _LARGEST_FILE
    }


def _tagged(tags: object, beginning: str) -> str | None:
    if not isinstance(tags, list):
        return None
    return next(
        (one.removeprefix(beginning) for one in tags if isinstance(one, str) and one.startswith(beginning)),
        None,
    )


def _text(values: object, name: str) -> str | None:
    found = values.get(name) if isinstance(values, Mapping) else None
    return found if isinstance(found, str) else None


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None
