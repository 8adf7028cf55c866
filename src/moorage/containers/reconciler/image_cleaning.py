"""Removes images that nothing runs any more.

An image that no container wants is kept for a while, because whoever stopped one may start it again. How long it has been
unused is not stored: a new leader begins to count anew, which keeps images longer and never shorter.
"""

from dataclasses import dataclass, field

import structlog

from moorage.catalog.repository import record_images
from moorage.containers.reconciler import repository
from moorage.engines.base import Engine
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 600.0


@dataclass
class ImageCleaning:
    database: Database
    engine: Engine
    settings: Settings
    clock: Clock
    _unused_since_s: dict[str, float] = field(init=False, default_factory=dict)

    async def run(self, lease: Lease) -> None:
        while True:
            await self.clean(lease)
            await self.clock.sleep(EVERY_S)

    async def clean(self, lease: Lease) -> None:
        lease.check()
        images = {image.engine_ref: image for image in await self.engine.pulled_images()}
        # After the list: what was pulled since is not on it.
        async with self.database.reading() as session:
            used = await repository.image_refs_in_use(session)
        now_s = self.clock.monotonic()
        self._unused_since_s = {ref: self._unused_since_s.get(ref, now_s) for ref in images.keys() - used}
        for ref, since_s in sorted(self._unused_since_s.items()):
            if now_s - since_s < self.settings.unused_images_kept_s:
                continue
            lease.check()
            if await self.engine.remove_image(ref):
                log.info("unused_image_removed", image=ref, size_bytes=images.pop(ref).size_bytes)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await record_images(session, len(images), sum(image.size_bytes for image in images.values()))
