"""Who fills an empty cache. Pure.

Of replicas that begin on one machine at the same time, one goes first and the others wait until it is ready: they find what it
downloaded and compiled. That holds whatever runs in the image; the locks of hubs' libraries are not relied on.

Each generation has a first one of its own: whoever restarts a container whose first replica hangs does not wait for that one's time to
be over, nor does what serves wait for a canary.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moorage.containers.states import ReplicaState


@dataclass(frozen=True)
class Turn:
    replica_id: str
    slot: int
    engine: str
    generation: int
    version: int
    state: ReplicaState
    begun: bool
    """Its engine has it, or is being told to."""


def not_their_turn(turns: Sequence[Turn], warm_versions: Mapping[str, int]) -> frozenset[str]:
    """Replicas that are not to begin yet. `warm_versions`, by engine: the newest version that became ready with the cache there;
    an engine that is missing keeps none, and nobody waits on it."""
    sharing = defaultdict[tuple[str, int], list[Turn]](list)
    for one in turns:
        if one.version > warm_versions.get(one.engine, one.version):
            sharing[one.engine, one.generation].append(one)
    waiting = set[str]()
    for cold in sharing.values():
        filling = [one for one in cold if _fills(one)]
        yet_to_begin = sorted(
            (one for one in cold if one.state is ReplicaState.REQUESTED and not one.begun),
            key=lambda one: (one.slot, one.replica_id),
        )
        waiting.update(one.replica_id for one in (yet_to_begin if filling else yet_to_begin[1:]))
    return frozenset(waiting)


def untried(turns: Sequence[Turn], warm_versions: Mapping[str, int]) -> frozenset[str]:
    """Replicas that have not begun because a cache was empty: whether the container starts at all they do not show."""
    return frozenset(
        one.replica_id
        for one in turns
        if one.state is ReplicaState.REQUESTED
        and not one.begun
        and one.version > warm_versions.get(one.engine, one.version)
    )


def _fills(turn: Turn) -> bool:
    return turn.state is ReplicaState.STARTING or (turn.state is ReplicaState.REQUESTED and turn.begun)
