"""In how many bits a model's numbers lie in memory: as its configuration and its files say, and as servers load them. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from moorage.models.parameters import ParameterCount
from moorage.models.shape import Config, text_config, word

BYTES_BY_TENSOR_TYPE: Mapping[str, float] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "F4": 0.5,
    "I64": 8,
    "U64": 8,
    "I32": 4,
    "U32": 4,
    "I16": 2,
    "U16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
"""As safetensors names them."""
_FLOATS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "half": "fp16",
    "float": "fp32",
}
_BYTES = {"fp64": 8.0, "fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
_BY_TENSOR_TYPE = {"F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16"}
_USUAL_GROUP = 128


@dataclass(frozen=True)
class Precision:
    """`name` is what templates list: bf16, fp16, fp32, fp8, int8, awq, gptq, int4, bnb4, bnb8, mxfp4, nvfp4, gguf."""

    name: str
    bits: float
    """Of a number in a matrix of a layer."""
    group: int = 0
    """So many numbers share a scale, and a zero where there is one; 0: too many to count."""
    scale_bits: float = 0.0
    """Of that scale and zero together."""
    experts_only: bool = False
    """The other matrices stay as they were."""
    column_bits: int = 0
    """Kept for each input of a matrix."""
    plain_bytes: float = 2.0
    """Of what is not packed: embeddings, head, norms."""

    @property
    def is_quantized(self) -> bool:
        return self.name not in _BYTES

    @property
    def bits_per_parameter(self) -> float:
        """With its share of the scale."""
        return self.bits + (self.scale_bits / self.group if self.group else 0.0)

    def weights_bytes(self, count: ParameterCount) -> int:
        """Of a model that was counted."""
        packed = count.experts if self.experts_only else count.matrices
        if not self.is_quantized:
            packed = 0
        columns = count.columns * self.column_bits / 8 if packed else 0
        return round(
            packed * self.bits_per_parameter / 8 + columns + (count.total - packed) * self.plain_bytes
        )


def plain(name: str) -> Precision:
    """`bf16`, `fp16`, `fp32`."""
    return Precision(name, _BYTES[name] * 8, plain_bytes=_BYTES[name])


GGUF = Precision("gguf", 0.0)
"""Each tensor has a type of its own; what counts is the file's size."""


def precision_of(config: Config, tensor_types: Mapping[str, int] | None = None) -> Precision:
    """As the repository stores it. `tensor_types` are the hub's counts, which say it where the configuration is silent."""
    quantization = config.get("quantization_config") or text_config(config).get("quantization_config")
    float_name = _float_name(config, tensor_types)
    if isinstance(quantization, Mapping):
        return _quantized(quantization, 4.0 if float_name == "fp32" else 2.0)
    return plain(float_name)


def as_served(stored: Precision, *, on_gpu: bool) -> Precision:
    """Servers load 32-bit numbers as 16-bit ones on a GPU. On a processor they stay as they are."""
    if stored.name in ("fp32", "fp64"):
        return plain("fp16") if on_gpu else plain("fp32")
    return stored


def stored_bytes(tensor_types: Mapping[str, int]) -> int | None:
    """Of all tensors, as the hub counted them by type; None where a type is not known."""
    if not tensor_types or not set(tensor_types) <= set(BYTES_BY_TENSOR_TYPE):
        return None
    return round(sum(count * BYTES_BY_TENSOR_TYPE[name] for name, count in tensor_types.items()))


def _float_name(config: Config, tensor_types: Mapping[str, int] | None) -> str:
    for values in (config, text_config(config)):
        said = values.get("torch_dtype") or values.get("dtype")
        if isinstance(said, str) and said.removeprefix("torch.") in _FLOATS:
            return _FLOATS[said.removeprefix("torch.")]
    floats = {name: count for name, count in (tensor_types or {}).items() if name in _BY_TENSOR_TYPE}
    if floats:
        return _BY_TENSOR_TYPE[max(floats, key=lambda name: floats[name])]
    return "fp32" if config.get("quantization_config") is None and "model_type" in config else "bf16"


def _quantized(quantization: Config, plain_bytes: float) -> Precision:
    method = word(quantization, "quant_method")[:64].lower()
    bits = _number(quantization, 4, "bits", "w_bit", "wbits")
    group = _number(quantization, _USUAL_GROUP, "group_size", "q_group_size")
    if method == "awq":
        return Precision("awq", bits, group, 16 + bits, plain_bytes=plain_bytes)
    if method == "gptq":
        return Precision("gptq", bits, group, 16 + bits, column_bits=32, plain_bytes=plain_bytes)
    if method in ("fp8", "fbgemm_fp8"):
        return Precision("fp8", 8, plain_bytes=plain_bytes)
    if method == "mxfp4":
        return Precision("mxfp4", 4, 32, 8, experts_only=True, plain_bytes=plain_bytes)
    if method == "bitsandbytes":
        if quantization.get("load_in_8bit"):
            return Precision("bnb8", 8, plain_bytes=plain_bytes)
        # One 8-bit scale for 64 numbers, and a 32-bit one for 256 of those.
        return Precision("bnb4", 4, 64, 8 + 32 / 256, plain_bytes=plain_bytes)
    if method == "compressed-tensors":
        return _compressed(quantization, plain_bytes)
    if method == "modelopt":
        nested = quantization.get("quantization")
        where = nested if isinstance(nested, Mapping) else quantization
        fp4 = "FP4" in (word(quantization, "quant_algo") or word(where, "quant_algo", "quantization"))
        return Precision("nvfp4", 4, 16, 8) if fp4 else Precision("fp8", 8)
    # Somebody else's text: it is repeated only where it is a name.
    name = method if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", method) else "something"
    raise UnknownPrecisionError(f"is quantised with {name}, which is not known here")


def _compressed(quantization: Config, plain_bytes: float) -> Precision:
    groups = quantization.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        raise UnknownPrecisionError("does not say how it is quantised")
    bits = _number(weights, 8, "num_bits")
    group = _number(weights, 0, "group_size")
    is_float = weights.get("type") == "float"
    if bits == 8:
        return Precision("fp8" if is_float else "int8", 8, plain_bytes=plain_bytes)
    if is_float:
        return Precision("nvfp4", bits, group or 16, 8, plain_bytes=plain_bytes)
    return Precision(
        "int4", bits, group, 16 if weights.get("symmetric", True) else 16 + bits, plain_bytes=plain_bytes
    )


class UnknownPrecisionError(ValueError):
    """The message is a clause about the model."""


def _number(values: Config, usual: int, *names: str) -> int:
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20:
            return value
    return usual
