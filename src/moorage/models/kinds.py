"""What a model is for, and in which files it comes. Pure."""

from enum import StrEnum


class ModelKind(StrEnum):
    CHAT = "chat"
    EMBEDDING = "embedding"
    SPEECH = "speech"
    IMAGE = "image"


class ModelFormat(StrEnum):
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    CTRANSLATE2 = "ctranslate2"
    DIFFUSERS = "diffusers"


KIND_WORDS = {
    ModelKind.CHAT: "text",
    ModelKind.EMBEDDING: "embeddings",
    ModelKind.SPEECH: "speech",
    ModelKind.IMAGE: "images",
}
