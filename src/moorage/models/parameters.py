"""How many parameters a model has, counted from its `config.json`. Pure.

Every matrix of every layer, family by family, as the published architectures define them. The count is held against the same
configurations built by `transformers` on its meta device (`make prove-models`, `tests/models/counted.json`). It is needed where a
hub does not say how many there are, and to say what a quantised copy of a model weighs: quantisation packs the matrices of the
layers and leaves embeddings, head, norms and routers as they are, so those two are counted apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from moorage.models.encoders import bert_like, distilbert, modernbert, whisper
from moorage.models.shape import (
    Config,
    UnknownShapeError,
    key_value_heads,
    layers_of,
    size,
    size_or,
    text_config,
    word,
)
from moorage.models.tally import Tally


@dataclass(frozen=True)
class ParameterCount:
    total: int
    matrices: int
    """Of the layers, experts included: what quantisation packs."""
    experts: int
    """Of those, what only some tokens pass through."""
    columns: int
    """The inputs of all those matrices together: GPTQ keeps a number for each."""


@dataclass(frozen=True)
class Decoder:
    """How a family's layers differ from Llama's."""

    query_key_value_bias: bool | str = False
    """A name is the field that says so."""
    output_bias: bool | str = False
    feed_forward_bias: bool | str = False
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    query_key_norm: str = ""
    """`head`: one size for all heads; `all`: over all heads together."""
    tied: bool = False
    """Whether the head is the embedding where the configuration does not say."""
    head_bias: bool = False
    positions: bool = False
    """Learned, one vector for each."""


_LLAMA = Decoder("attention_bias", "attention_bias", "mlp_bias")
_DECODERS: Mapping[str, Decoder] = {
    "llama": _LLAMA,
    "mistral": Decoder(),
    "granite": _LLAMA,
    "smollm3": Decoder("attention_bias", "attention_bias", "mlp_bias", tied=True),
    "olmo2": Decoder("attention_bias", "attention_bias", query_key_norm="all"),
    "qwen2": Decoder(True),
    "qwen3": Decoder("attention_bias", "attention_bias", query_key_norm="head"),
    "gemma": Decoder("attention_bias", "attention_bias", tied=True),
    "gemma2": Decoder("attention_bias", "attention_bias", norms=4, tied=True),
    "gemma3_text": Decoder("attention_bias", "attention_bias", norms=4, query_key_norm="head", tied=True),
    "phi3": Decoder(),
    "phi": Decoder(True, True, True, gated=False, norms=1, norm_bias=True, head_bias=True),
    "cohere": Decoder("attention_bias", "attention_bias", norms=1, tied=True),
    "cohere2": Decoder("attention_bias", "attention_bias", norms=1, tied=True),
    "starcoder2": Decoder("use_bias", "use_bias", "use_bias", gated=False, norm_bias=True, tied=True),
    "stablelm": Decoder("use_qkv_bias", norm_bias=True),
    "gpt_neox": Decoder(True, True, True, gated=False, norm_bias=True),
    "gpt2": Decoder(True, True, True, gated=False, norm_bias=True, tied=True, positions=True),
    "mixtral": Decoder(),
    "qwen2_moe": Decoder(True),
    "qwen3_moe": Decoder("attention_bias", "attention_bias", query_key_norm="head"),
    "gpt_oss": Decoder(True, True),
}


def count_parameters(config: Config) -> ParameterCount:
    """Raises `UnknownShapeError` for a family that is not known, and where a size is missing."""
    model_type = word(config, "model_type")[:64]
    counted = _FAMILIES.get(model_type)
    if counted is None and model_type in _DECODERS:
        counted = _decoder
    if counted is None:
        raise UnknownShapeError(
            f"is of the architecture {model_type or 'without a name'}, which is not known here"
        )
    tally = counted(config)
    return ParameterCount(tally.total, tally.matrices, tally.experts, tally.columns)


def active_parameters(config: Config, count: ParameterCount) -> int:
    """What one token passes through."""
    text = text_config(config)
    experts = size_or(text, 0, "num_local_experts", "num_experts", "n_routed_experts")
    chosen = size_or(text, 0, "num_experts_per_tok", "experts_per_token")
    if not experts or not chosen or not count.experts:
        return count.total
    return count.total - count.experts + count.experts * chosen // experts


def _decoder(config: Config) -> Tally:
    model_type = str(config["model_type"])
    family = _DECODERS[model_type]
    hidden, heads = size(config, "hidden_size", "n_embd"), size(config, "num_attention_heads", "n_head")
    layers = layers_of(config, "num_hidden_layers", "n_layer")
    tally = Tally()
    _embeddings(tally, config, family, hidden)
    head_size = size_or(config, hidden // heads, "head_dim")
    groups = key_value_heads(config, model_type, heads)
    with_experts = _layers_with_experts(config, layers) if model_type in _EXPERTS else frozenset()
    for layer in range(layers):
        _attention(tally, config, family, hidden, heads, groups, head_size)
        tally.others(family.norms * hidden * (2 if family.norm_bias else 1))
        if layer in with_experts:
            _EXPERTS[model_type](tally, config, hidden)
        else:
            _feed_forward(
                tally,
                hidden,
                _intermediate(config, hidden),
                family.gated,
                _says(config, family.feed_forward_bias),
            )
    return tally


def _embeddings(tally: Tally, config: Config, family: Decoder, hidden: int) -> None:
    vocabulary = size(config, "vocab_size")
    tally.others(vocabulary * hidden)
    if not config.get("tie_word_embeddings", family.tied):
        tally.others(vocabulary * hidden + (vocabulary if family.head_bias else 0))
    if family.positions:
        tally.others(size(config, "max_position_embeddings", "n_positions") * hidden)
    tally.others(hidden * (2 if family.norm_bias else 1))


def _attention(
    tally: Tally, config: Config, family: Decoder, hidden: int, heads: int, groups: int, head_size: int
) -> None:
    bias = _says(config, family.query_key_value_bias)
    tally.matrix(hidden, (heads + 2 * groups) * head_size, bias=bias)
    tally.matrix(heads * head_size, hidden, bias=_says(config, family.output_bias))
    if family.query_key_norm:
        tally.others(head_size * (2 if family.query_key_norm == "head" else heads + groups))
    if config["model_type"] == "gpt_oss":
        tally.others(heads)  # the sinks


def _feed_forward(tally: Tally, hidden: int, intermediate: int, gated: bool, bias: bool) -> None:
    tally.matrix(hidden, intermediate * (2 if gated else 1), bias=bias)
    tally.matrix(intermediate, hidden, bias=bias)


def _mixtral_experts(tally: Tally, config: Config, hidden: int) -> None:
    experts = size(config, "num_local_experts")
    tally.others(hidden * experts)
    tally.expert_matrices(experts, hidden, size(config, "intermediate_size"))


def _qwen_experts(tally: Tally, config: Config, hidden: int) -> None:
    experts = size(config, "num_experts")
    tally.others(hidden * experts)
    tally.expert_matrices(experts, hidden, size(config, "moe_intermediate_size"))
    shared = size_or(config, 0, "shared_expert_intermediate_size")
    if shared:
        _feed_forward(tally, hidden, shared, gated=True, bias=False)
        tally.others(hidden)


def _gpt_oss_experts(tally: Tally, config: Config, hidden: int) -> None:
    experts, intermediate = size(config, "num_local_experts"), size(config, "intermediate_size")
    tally.others(hidden * experts + experts)
    tally.expert_matrices(experts, hidden, intermediate)
    tally.others(experts * (2 * intermediate + hidden))


_EXPERTS: Mapping[str, Callable[[Tally, Config, int], None]] = {
    "mixtral": _mixtral_experts,
    "qwen2_moe": _qwen_experts,
    "qwen3_moe": _qwen_experts,
    "gpt_oss": _gpt_oss_experts,
}


def _layers_with_experts(config: Config, layers: int) -> frozenset[int]:
    step, listed = size_or(config, 1, "decoder_sparse_step"), config.get("mlp_only_layers")
    sparse = frozenset(range(step - 1, layers, step))
    # The list is as long as whoever wrote it likes: it is passed through once, not once for each layer.
    return (
        sparse.difference(one for one in listed if isinstance(one, int))
        if isinstance(listed, list)
        else sparse
    )


def _deepseek(config: Config) -> Tally:
    hidden, heads = size(config, "hidden_size"), size(config, "num_attention_heads")
    plain, turned = size(config, "qk_nope_head_dim"), size(config, "qk_rope_head_dim")
    rank, value = size(config, "kv_lora_rank"), size(config, "v_head_dim")
    query_rank = size_or(config, 0, "q_lora_rank")
    first_dense, every = size_or(config, 0, "first_k_dense_replace"), size_or(config, 1, "moe_layer_freq")
    tally = Tally()
    _embeddings(tally, config, Decoder(), hidden)
    for layer in range(layers_of(config, "num_hidden_layers")):
        if query_rank:
            tally.matrix(hidden, query_rank)
            tally.others(query_rank)
        tally.matrix(query_rank or hidden, heads * (plain + turned))
        tally.matrix(hidden, rank + turned)
        tally.others(rank)
        tally.matrix(rank, heads * (plain + value))
        tally.matrix(heads * value, hidden)
        tally.others(2 * hidden)
        if config.get("n_routed_experts") and layer >= first_dense and layer % every == 0:
            _deepseek_experts(tally, config, hidden)
        else:
            _feed_forward(tally, hidden, size(config, "intermediate_size"), gated=True, bias=False)
    return tally


def _deepseek_experts(tally: Tally, config: Config, hidden: int) -> None:
    experts, intermediate = size(config, "n_routed_experts"), size(config, "moe_intermediate_size")
    tally.others(hidden * experts)
    tally.expert_matrices(experts, hidden, intermediate)
    shared = size_or(config, 0, "n_shared_experts")
    if shared:
        _feed_forward(tally, hidden, intermediate * shared, gated=True, bias=False)


def _falcon(config: Config) -> Tally:
    hidden = size(config, "hidden_size", "n_embed")
    heads, vocabulary = size(config, "num_attention_heads", "n_head"), size(config, "vocab_size")
    head_size, bias = hidden // heads, bool(config.get("bias", False))
    groups = key_value_heads(config, "falcon", heads)
    renewed = bool(config.get("new_decoder_architecture", False))
    parallel = renewed or bool(config.get("parallel_attn", True))
    norms = size_or(config, 2, "num_ln_in_parallel_attn") if renewed else 1 if parallel else 2
    tally = Tally()
    tally.others(vocabulary * hidden + 2 * hidden)
    if not config.get("tie_word_embeddings", True):
        tally.others(vocabulary * hidden)
    for _ in range(layers_of(config, "num_hidden_layers", "n_layer")):
        tally.matrix(hidden, (heads + 2 * groups) * head_size, bias=bias)
        tally.matrix(hidden, hidden, bias=bias)
        _feed_forward(tally, hidden, size_or(config, 4 * hidden, "ffn_hidden_size"), gated=False, bias=bias)
        tally.others(norms * 2 * hidden)
    return tally


_FAMILIES: Mapping[str, Callable[[Config], Tally]] = {
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "falcon": _falcon,
    "bert": bert_like,
    "roberta": bert_like,
    "xlm-roberta": bert_like,
    "distilbert": distilbert,
    "modernbert": modernbert,
    "whisper": whisper,
}


def _intermediate(config: Config, hidden: int) -> int:
    return size_or(config, 4 * hidden, "intermediate_size", "n_inner")


def _says(config: Config, answer: bool | str) -> bool:
    return answer if isinstance(answer, bool) else bool(config.get(answer, answer == "use_bias"))
