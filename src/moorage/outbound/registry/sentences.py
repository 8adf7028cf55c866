"""An image's name, and everything a pre-flight can say against it: a reason and a sentence to act on. Pure.

None of it holds a password, a token, or text that a registry chose, beyond names that were checked.
"""

import math
import re
from dataclasses import dataclass

from moorage.kit.errors import ImageError
from moorage.outbound.addresses import Origin
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.registry.manifest import Platform

IMAGE_NOT_FOUND = "image_not_found"
REGISTRY_AUTH_FAILED = "registry_auth_failed"
REGISTRY_UNREACHABLE = "registry_unreachable"
IMAGE_ARCHITECTURE_MISMATCH = "image_architecture_mismatch"
IMAGE_TOO_LARGE = "image_too_large"

_MOST_PLATFORMS = 12
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::[0-9]{1,5})?)/(?P<repository>[a-z0-9][a-z0-9._/-]*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[a-f0-9]{64}))?"
)


@dataclass(frozen=True)
class ImageName:
    host: str
    repository: str
    reference: str
    """A tag, or a digest."""

    def __str__(self) -> str:
        return f"{self.repository}{'@' if ':' in self.reference else ':'}{self.reference}"

    @classmethod
    def parse(cls, reference: str) -> "ImageName":
        match = _REFERENCE.fullmatch(reference) if len(reference) <= 500 else None
        # A repository of `..` would leave /v2/ on the way to the registry.
        if match is None or ".." in match["repository"] or not (match["tag"] or match["digest"]):
            raise ImageError(
                f"{reference[:200]!r} does not name an image: write host/repository:tag.",
                code=IMAGE_NOT_FOUND,
            )
        return cls(match["host"], match["repository"], match["digest"] or match["tag"])


class PassingImageError(ImageError):
    """It may be over in a minute: whoever is in the middle of a pull asks again."""


class Sentences:
    def __init__(self, image: ImageName, credentials: RegistryCredentials | None) -> None:
        self._image = image
        self._host = image.host
        self._username = credentials.username if credentials else None

    def not_found(self) -> ImageError:
        hint = (
            "private images need username and password"
            if self._username is None
            else f"a registry says the same of images that the user {self._username!r} may not read"
        )
        return ImageError(
            f"{self._host} says there is no image {self._image}. Check the name and tag; {hint}.",
            code=IMAGE_NOT_FOUND,
        )

    def incomplete(self) -> ImageError:
        return ImageError(
            f"{self._host} has {self._image} only in part: its configuration is missing. Push it again.",
            code=IMAGE_NOT_FOUND,
        )

    def part_missing(self) -> ImageError:
        return ImageError(
            f"{self._host} has {self._image} only in part: a layer is missing. Push it again.",
            code=IMAGE_NOT_FOUND,
        )

    def too_large(self, size_bytes: int, max_bytes: int) -> ImageError:
        return ImageError(
            f"{self._image} has layers of {_size(size_bytes)}; an image may have {_size(max_bytes)} here. "
            "Make it smaller, for instance by loading models when the container starts, or ask the operator "
            "for a higher limit.",
            code=IMAGE_TOO_LARGE,
        )

    def too_large_unpacked(self, max_bytes: int) -> ImageError:
        return ImageError(
            f"{self._image} unpacks to more than the {_size(max_bytes)} that an image may have here. "
            "Make it smaller, or ask the operator for a higher limit.",
            code=IMAGE_TOO_LARGE,
        )

    def unusable(self, clause: str) -> ImageError:
        return ImageError(f"{self._image} at {self._host} {clause}.", code=IMAGE_NOT_FOUND)

    def denied(self, *, signed_in: bool = False) -> ImageError:
        if self._username is None:
            return self.needs_credentials()
        if signed_in:
            return ImageError(
                f"{self._host} accepted the username and password, but does not show {self._image} to "
                f"{self._username!r}. Check the name and tag, and that this user may read the image.",
                code=REGISTRY_AUTH_FAILED,
            )
        return ImageError(
            f"{self._host} refused the username and password for {self._image}. "
            "Check both, that they have not expired, and that they may read this image.",
            code=REGISTRY_AUTH_FAILED,
        )

    def needs_credentials(self) -> ImageError:
        # Docker Hub asks for a password where there is no such repository; a typing error is the likelier cause.
        is_hub = self._host.lower() in ("docker.io", "index.docker.io", "registry-1.docker.io")
        return ImageError(
            f"{self._host} does not show {self._image} to everybody: it is private, or it does not exist. "
            "Check the name and tag; for a private image give username and password.",
            code=IMAGE_NOT_FOUND if is_hub else REGISTRY_AUTH_FAILED,
        )

    def foreign_realm(self, realm: Origin) -> ImageError:
        return ImageError(
            f"{self._host} wants the password sent to {realm}, which does not belong to it, so Moorage did "
            "not send it. If the image is public, remove username and password.",
            code=REGISTRY_AUTH_FAILED,
        )

    def wrong_architecture(self, architecture: str, platforms: tuple[Platform, ...]) -> ImageError:
        names = ", ".join(str(platform) for platform in platforms[:_MOST_PLATFORMS] if str(platform))
        there_is = f"only for {names}" if names else "for no processor that it names"
        return ImageError(
            f"{self._image} is built {there_is}, but must run on linux/{architecture}. Build it with "
            f"--platform linux/{architecture} and push it again.",
            code=IMAGE_ARCHITECTURE_MISMATCH,
        )

    def odd_status(self, origin: Origin, status: int) -> ImageError:
        advice = "Try again later"
        if status == 429:
            advice = "It limits how often Moorage may ask; wait some minutes"
            advice += ", or give username and password" if self._username is None else ""
        kind = PassingImageError if status in (408, 429) or status >= 500 else ImageError
        return kind(
            f"{origin} answered with HTTP status {status} when asked for {self._image}. {advice}.",
            code=REGISTRY_UNREACHABLE,
        )

    def misbehaves(self, what: str) -> ImageError:
        return ImageError(
            f"{self._host} answered with {what} when asked for {self._image}. Check that it is a container "
            "registry, or tell its operator.",
            code=REGISTRY_UNREACHABLE,
        )

    def broken_off(self, why: str) -> ImageError:
        return ImageError(
            f"The image {self._image} could not be pulled: {why}. Try again later.",
            code=REGISTRY_UNREACHABLE,
        )

    def unreachable(self, why: str) -> ImageError:
        return ImageError(
            f"The image {self._image} cannot be checked: {why}. Check the registry's name, or try again later.",
            code=REGISTRY_UNREACHABLE,
        )


def _size(size_bytes: int) -> str:
    """Never less than there is: 100.1 GiB is not "100 GiB" next to a limit of that."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if size_bytes >= unit:
            return f"{math.ceil(size_bytes * 10 / unit) / 10:g} {name}"
    return f"{size_bytes} bytes"
