"""The image of doors, the operator's own: like every image, a Pod gets it from the pull proxy with a ticket of its own."""

from dataclasses import dataclass, field

from moorage.engines.base import ImageRequest
from moorage.engines.kubernetes.images import EVERYBODY, ClusterImages, PodImage
from moorage.engines.kubernetes.names import DOOR
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, ImageError
from moorage.kit.ids import OrganizationId, ReplicaId

_LOOKED_UP_FOR_S = 60.0
"""How long what a tag leads to is believed."""


def door_id(replica_id: ReplicaId) -> ReplicaId:
    """Under which a door has its ticket."""
    return ReplicaId(f"{replica_id}/{DOOR}")


@dataclass
class DoorImages:
    images: ClusterImages
    image: ImageRequest | None
    clock: Clock
    _found: dict[str, tuple[str, float]] = field(init=False, default_factory=dict)
    """By architecture: `Image.engine_ref`, and when it was looked up."""

    async def ticket(self, replica_id: ReplicaId, architecture: str) -> PodImage:
        """Raises `EngineError`: that it cannot be had is the operator's to put right, whoever deploys."""
        try:
            engine_ref = await self._engine_ref(architecture)
            whose = OrganizationId(EVERYBODY)
            return await self.images.ticket(door_id(replica_id), whose, engine_ref, architecture)
        except ImageError as exc:
            raise EngineError(f"get the image of the door of {replica_id}: {exc.message}") from exc

    async def _engine_ref(self, architecture: str) -> str:
        if self.image is None:
            raise EngineError("This replica has a door, and no image for it is set (kubernetes_door_image).")
        found, now_s = self._found.get(architecture), self.clock.monotonic()
        if found is None or now_s - found[1] > _LOOKED_UP_FOR_S:
            ensured = await self.images.ensure(self.image, {architecture})
            found = self._found[architecture] = ensured.engine_ref, now_s
        return found[0]
