"""Removes images that nothing runs any more.

An image that no container wants is kept for a while, because whoever stopped one may start it again. How long it has been
unused is not stored: a new leader begins to count anew, which keeps images longer and never shorter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from moorage.catalog.repository import Kept, record_images
from moorage.containers.reconciler import repository
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 600.0


@dataclass
class ImageCleaning:
    database: Database
    engines: Engines
    settings: Settings
    clock: Clock
    _unused_since_s: dict[str, dict[str, float]] = field(init=False, default_factory=dict)
    """By engine and image."""
    _used: Together[str, None, set[str]] = field(init=False)
    _kept: Together[str, tuple[Kept, Lease], None] = field(init=False)

    def __post_init__(self) -> None:
        self._used = Together(self._read_used, self.clock, self.engines.pause_s)
        self._kept = Together(self._write_kept, self.clock, self.engines.pause_s)

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        while True:
            await self.clean(name, lease)
            await self.clock.sleep(self.engines.turn_in_s(name, EVERY_S, self.clock.monotonic()))

    async def clean(self, name: str, lease: Lease) -> None:
        lease.check()
        engine = self.engines.of(name)
        images = {image.engine_ref: image for image in await engine.pulled_images()}
        # After the list: what was pulled since is not on it.
        used = await self._used.ask(name, None) if images else set()
        now_s, before = self.clock.monotonic(), self._unused_since_s.get(name, {})
        unused_since_s = {ref: before.get(ref, now_s) for ref in images.keys() - used}
        self._unused_since_s[name] = unused_since_s
        for ref, since_s in sorted(unused_since_s.items()):
            if now_s - since_s < self.settings.unused_images_kept_s:
                continue
            lease.check()
            if await engine.remove_image(ref):
                log.info(
                    "unused_image_removed", engine=name, image=ref, size_bytes=images.pop(ref).size_bytes
                )
        kept = Kept(len(images), sum(image.size_bytes for image in images.values()))
        await self._kept.ask(name, (kept, lease))

    async def _read_used(self, engines: Mapping[str, None]) -> Mapping[str, set[str]]:
        async with self.database.reading() as session:
            return dict.fromkeys(engines, await repository.image_refs_in_use(session))

    async def _write_kept(self, kept: Mapping[str, tuple[Kept, Lease]]) -> Mapping[str, None]:
        async with self.database.transaction() as session:
            await next(lease for _, lease in kept.values()).guard(session)  # it is everybody's
            await record_images(session, {name: one for name, (one, _) in kept.items()})
        return dict.fromkeys(kept)
