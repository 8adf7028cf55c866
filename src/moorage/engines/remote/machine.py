"""What Moorage knows of a machine by itself: nothing here was said by the machine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from moorage.engines.remote.proven import Proven
from moorage.kit.ids import ContainerId, ReplicaId

OPERATOR = "operator"


@dataclass(frozen=True)
class Machine:
    name: str
    """Ours, whatever it calls itself."""
    infrastructure: str
    """`operator` or `community`."""
    address: str
    """In the tunnel: of its node role, and where its replicas are reached."""
    port: int
    credential: str = field(repr=False)
    """Good at this machine alone: it could pass it on."""
    verified: bool = True
    """A lent one is not before it has proven what it claims: until then nothing is placed there."""
    most_cpu_millis: int = 1_024_000
    most_memory_bytes: int = 8192 * 2**30
    """What it has beyond this, it says alone."""
    proven: Proven | None = None
    """What a lent one has shown so far; None: nothing that was written down."""

    @property
    def is_the_operators(self) -> bool:
        """Whether its words may be shown to people as they are, and its local images are the operator's."""
        return self.infrastructure == OPERATOR


@dataclass(frozen=True)
class PlacedReplica:
    container_id: ContainerId
    is_here: bool
    """Whether its row says that it is on this machine, and on no other."""
    created_at: datetime | None = None
    """Of its row: it cannot have run before."""


class Placements(Protocol):
    async def placed(self, replica_ids: Collection[ReplicaId]) -> Mapping[ReplicaId, PlacedReplica]:
        """What the rows say of these, for one machine; those without a row are left out."""
        ...
