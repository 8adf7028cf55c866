"""Why an engine could not take an image that the pull proxy handed out, from its own words to a reason and a sentence. What goes
wrong with a registry is the proxy's to say."""

import structlog

from moorage.kit.errors import ImageError

log = structlog.get_logger()

# In the order they are looked for.
_PULL_ERRORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("disk_full", ("no space left on device", "disk quota exceeded")),
    ("image_architecture_mismatch", ("no matching manifest", "does not match the specified platform")),
    (
        "image_not_found",
        (
            "failed to register layer",
            "filesystem layer verification failed",
            "archive/tar",
            "invalid tar header",
            "unexpected eof",
            "mismatch",
            "invalid rootfs",
            "unsupported",
            "operating system",
        ),
    ),
)

_ADVICE = {
    "image_architecture_mismatch": "The image {image} is not built for this machine's processor.",
    "disk_full": "The machine has no disk space left to pull {image}. Tell the operator.",
    "image_not_found": "The image {image} is at its registry but cannot be unpacked: its layers are "
    "damaged, or are not those that its configuration names. Rebuild it and push it "
    "again.",
}


def pull_failure(reference: str, message: str) -> ImageError:
    """The engine's own words may quote the image's files: they are for the operator."""
    log.warning("pull_failed", image=reference, error=message)
    return known_pull_failure(reference, message) or ImageError(
        f"The machine could not take the image {reference}. The operator's log says why. Try again later.",
        code="engine_error",
    )


def known_pull_failure(reference: str, message: str) -> ImageError | None:
    """None for what may pass."""
    text = message.lower()
    for code, phrases in _PULL_ERRORS:
        if any(phrase in text for phrase in phrases):
            return ImageError(_ADVICE[code].format(image=reference), code=code)
    return None
