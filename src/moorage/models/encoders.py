"""Parameters of models that read or listen and do not chat: BERT's family and Whisper. Pure; see `parameters.py`."""

from moorage.models.shape import Config, layers_of, size, size_or
from moorage.models.tally import Tally


def bert_like(config: Config) -> Tally:
    hidden, intermediate = size(config, "hidden_size"), size(config, "intermediate_size")
    tally = Tally()
    words = size(config, "vocab_size") + size(config, "max_position_embeddings")
    tally.others((words + size_or(config, 2, "type_vocab_size")) * hidden + 2 * hidden)
    for _ in range(layers_of(config, "num_hidden_layers")):
        _encoder_layer(tally, hidden, intermediate)
    tally.matrix(hidden, hidden, bias=True)  # the pooler
    return tally


def distilbert(config: Config) -> Tally:
    hidden = size(config, "dim")
    tally = Tally()
    tally.others((size(config, "vocab_size") + size(config, "max_position_embeddings")) * hidden + 2 * hidden)
    for _ in range(layers_of(config, "n_layers")):
        _encoder_layer(tally, hidden, size(config, "hidden_dim"))
    return tally


def modernbert(config: Config) -> Tally:
    """No biases; the first layer has no norm before its attention."""
    hidden, intermediate = size(config, "hidden_size"), size(config, "intermediate_size")
    tally = Tally()
    tally.others(size(config, "vocab_size") * hidden + hidden)
    for layer in range(layers_of(config, "num_hidden_layers")):
        tally.matrix(hidden, 3 * hidden)
        tally.matrix(hidden, hidden)
        tally.matrix(hidden, 2 * intermediate)
        tally.matrix(intermediate, hidden)
        tally.others(hidden * (2 if layer else 1))
    tally.others(hidden)
    return tally


def whisper(config: Config) -> Tally:
    width = size(config, "d_model")
    tally = Tally()
    # Two convolutions over three steps make sound into vectors.
    tally.others(size(config, "num_mel_bins") * width * 3 + width + width * width * 3 + width)
    tally.others((size(config, "max_source_positions") + size(config, "max_target_positions")) * width)
    tally.others(size(config, "vocab_size") * width)
    tally.others(2 * 2 * width)
    for _ in range(layers_of(config, "encoder_layers")):
        _whisper_attention(tally, width)
        _whisper_feed_forward(tally, width, size(config, "encoder_ffn_dim"))
        tally.others(2 * 2 * width)
    for _ in range(layers_of(config, "decoder_layers")):
        _whisper_attention(tally, width)
        _whisper_attention(tally, width)
        _whisper_feed_forward(tally, width, size(config, "decoder_ffn_dim"))
        tally.others(3 * 2 * width)
    return tally


def _encoder_layer(tally: Tally, hidden: int, intermediate: int) -> None:
    tally.matrix(hidden, 3 * hidden, bias=True)
    tally.matrix(hidden, hidden, bias=True)
    tally.matrix(hidden, intermediate, bias=True)
    tally.matrix(intermediate, hidden, bias=True)
    tally.others(2 * 2 * hidden)


def _whisper_attention(tally: Tally, width: int) -> None:
    """Its keys have no bias."""
    tally.matrix(width, 3 * width)
    tally.others(2 * width)
    tally.matrix(width, width, bias=True)


def _whisper_feed_forward(tally: Tally, width: int, inner: int) -> None:
    tally.matrix(width, inner, bias=True)
    tally.matrix(inner, width, bias=True)
