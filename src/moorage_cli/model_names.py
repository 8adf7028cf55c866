"""What on the command line is a model, and not an image. Pure. What it means exactly is for the API to say."""

import re

_HUB = re.compile(r"(hf:|https?://|((www\.)?huggingface\.co|hf\.co)/)", re.IGNORECASE)
_IMAGE = re.compile(r"[a-z0-9._/:@-]+")
"""Repositories of images have no capitals, tags may; models' names mostly have some."""
_ORGANIZATION_AND_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._/-]+)?"
)


def is_model(text: str) -> bool:
    """An address of any host counts: no image is named with https://, and the API says what is wrong with others."""
    return _HUB.match(text) is not None


def instead_of(text: str) -> str:
    """What to write, of what is no model."""
    if _ORGANIZATION_AND_NAME.fullmatch(text) is None:
        return f"Write hf:ORGANIZATION/NAME, or --image {text} for an image."
    if _IMAGE.fullmatch(text.partition(":")[0].partition("@")[0]) is None:
        return f"Write hf:{text} for a model."
    return f"Write hf:{text} for a model, or --image {text} for an image."


def usual_name(model: str) -> str:
    """That its container gets where nobody names it: `hf:Qwen/Qwen3-8B@v1` → `Qwen3-8B`."""
    found = re.search(r"(?:^hf:|hf\.co/|huggingface\.co/)[^/]+/([^/?#@:]+)", model, re.IGNORECASE)
    return found[1] if found is not None else model
