"""An image for another machine. It is asked for here, with its owner's credentials; the machine is given a ticket of the pull
proxy (`outbound/pulls`), which it redeems through the tunnel, and hears neither the image's name nor a password."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from moorage.engines.base import Image, ImageRequest, PullProgress
from moorage.engines.docker.images import pull_order
from moorage.engines.remote.claims import local_image_of, progress_of, pull_error_of, pulled_image_of
from moorage.engines.remote.codec import ANSWERS, decode, parse, to_bytes
from moorage.engines.remote.connection import AWAY, MachineConnection
from moorage.engines.remote.frames import FrameKind
from moorage.engines.remote.machine import Machine
from moorage.engines.remote.messages import open_envelope
from moorage.kit.errors import EngineError, ImageError
from moorage.outbound.pulls.proxy import PullProxy
from moorage.outbound.pulls.ticket import Ticket

OnProgress = Callable[[PullProgress], None]


@dataclass(frozen=True)
class RemotePulls:
    machine: Machine
    connection: MachineConnection
    proxy: PullProxy | None
    """Without one there are the machine's own images and no others."""

    async def local_image(self, request: ImageRequest, on_progress: OnProgress) -> Image:
        if not self.machine.is_the_operators:
            raise ImageError(
                f"There is no image {request.reference} on this machine. Local images are only on the "
                "operator's own machine.",
                code="image_not_found",
            )
        image = await self._on_machine(request, on_progress)
        with self.connection.failing_in_words("ensure_image"):
            return local_image_of(image)

    async def pulled_image(self, request: ImageRequest, architecture: str, on_progress: OnProgress) -> Image:
        order = replace(pull_order(request, architecture), machine=self.machine.name)
        if self.proxy is None:
            raise EngineError(f"pull {request.reference}: this engine was given no way to pull images")
        async with self.proxy.ticket(order) as ticket:
            image = await self._by_ticket(request, ticket, on_progress)
        with self.connection.failing_in_words("ensure_image"):
            return pulled_image_of(ticket, image)

    async def _by_ticket(self, request: ImageRequest, ticket: Ticket, on_progress: OnProgress) -> Image:
        """Ends as soon as it cannot succeed, whatever the machine still tries."""
        redeemed = ImageRequest(
            f"{ticket.path}@{ticket.manifest_digest}",
            ticket.credentials,
            organization_id=request.organization_id,
        )
        pulling = asyncio.ensure_future(self._on_machine(redeemed, on_progress))
        refused = asyncio.wrap_future(ticket.refused)
        try:
            await asyncio.wait((pulling, refused), return_when=asyncio.FIRST_COMPLETED)
            if not refused.done():
                return await pulling
        except EngineError as exc:
            raise ticket.trouble or pull_error_of(self.machine, request.reference, exc) from None
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)
            refused.cancel()
        raise ticket.refused.result()

    async def _on_machine(self, request: ImageRequest, on_progress: OnProgress) -> Image:
        body = to_bytes({"request": request})
        async with aclosing(self.connection.frames("ensure_image", body)) as bundles:
            async for frames in bundles:
                # Of what came together the last is how far it is.
                latest = dict(frames)
                with self.connection.failing_in_words("ensure_image"):
                    if FrameKind.PROGRESS in latest:
                        told = decode(PullProgress, parse(latest[FrameKind.PROGRESS]), ANSWERS)
                        on_progress(progress_of(told))
                    if FrameKind.ANSWER in latest:
                        image: Image = open_envelope(latest[FrameKind.ANSWER], Image).answer
                        return image
        raise EngineError(f"ensure_image on machine {self.machine.name}: it broke off", code=AWAY)
