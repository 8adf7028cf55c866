"""One pull: what it may fetch, with whose credentials, and how it went. It ends with the pull."""

import asyncio
import concurrent.futures
import secrets
from dataclasses import dataclass, field

from moorage.kit.errors import ImageError
from moorage.kit.ids import OrganizationId
from moorage.outbound.pulls.check import LayerCheck, UnpackedBudget
from moorage.outbound.registry.client import ResolvedImage
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.registry.session import RegistrySession

PULL_FOLDER = "moorage-pull"
"""The names that an engine is given begin with it, so that one which a crash left behind is known again."""

_STREAMS = 4
"""Layers at a time. An engine may ask for more, and one pull would take the line from the others."""


@dataclass(frozen=True)
class PullOrder:
    reference: str
    """Complete: `host/repository:tag` or `host/repository@digest`."""
    credentials: RegistryCredentials | None
    architecture: str
    organization_id: OrganizationId | None = None
    machine: str = ""
    """Where it goes, if not onto this machine."""

    @property
    def share(self) -> str:
        """Whose pulls take turns: an organization's on one machine. One that takes for ever holds up no other."""
        return f"{self.organization_id or ''} {self.machine}"


@dataclass
class Pull:
    """The proxy's side, which lives in the proxy's thread. `ready` and `refused` are for those who wait elsewhere."""

    order: PullOrder
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    ready: "concurrent.futures.Future[ResolvedImage]" = field(default_factory=concurrent.futures.Future)
    refused: "concurrent.futures.Future[ImageError]" = field(default_factory=concurrent.futures.Future)
    troubles: dict[str, ImageError] = field(default_factory=dict)
    """By layer, what went wrong last; not any more once the engine got it by asking again."""
    requests: int = 0
    """How often something of it was asked for."""

    def __post_init__(self) -> None:
        for future in (self.ready, self.refused):
            future.set_running_or_notify_cancel()  # whoever stops waiting for it does not cancel it

    def open(self, session: RegistrySession, image: ResolvedImage, max_unpacked_bytes: int) -> None:
        self.session = session
        self.image = image
        self.streams = asyncio.Semaphore(_STREAMS)
        budget = UnpackedBudget(max_unpacked_bytes)
        self.layers = {
            layer.digest: LayerCheck(layer.digest, layer.size_bytes, budget)
            for layer in image.manifest.layers
        }
        """Nothing else is handed out: not what the registry has besides, whatever the engine is made to ask for."""

    def note(self, digest: str, error: ImageError) -> ImageError:
        self.troubles[digest] = error
        return error

    def refuse(self, error: ImageError) -> ImageError:
        """For good: the engine need not ask again."""
        if not self.refused.done():
            self.refused.set_result(error)
        return error


class Ticket:
    """What an engine is given in place of an image's name and its owner's credentials."""

    def __init__(self, pull: Pull, image: ResolvedImage, listen: str) -> None:
        self._pull = pull
        self.path = f"{PULL_FOLDER}/{pull.id}"
        """Wherever the proxy is reached by whoever pulls."""
        self.name = f"{listen}/{self.path}"
        """For an engine on this machine."""
        self.image = image
        """What the registry said of it."""
        self.manifest_digest = image.manifest_document.digest
        """Of the image for this architecture: `name@manifest_digest` is to be pulled."""
        self.digest = image.facts.digest
        """Of what the user named, which may be an index of several."""
        self.credentials = RegistryCredentials(pull.id, pull.secret)

    @property
    def refused(self) -> "concurrent.futures.Future[ImageError]":
        """Has a result as soon as the pull cannot succeed any more."""
        return self._pull.refused

    @property
    def trouble(self) -> ImageError | None:
        """What went wrong and was not put right: why the engine gave up."""
        if self.refused.done():
            return self.refused.result()
        return next(iter(tuple(self._pull.troubles.values())), None)
