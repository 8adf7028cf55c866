"""What hubs said a moment ago, so that a person who moves a slider asks them once.

Kept for a minute and for whoever asked, with the token they gave: what one person may see of a private model is nobody else's.
"""

import hashlib
from collections import OrderedDict

from moorage.kit.clock import Clock
from moorage.kit.fair_slots import FairSlots
from moorage.models.facts import ModelFacts
from moorage.models.hub import look_up_model
from moorage.models.reference import ModelReference

_KEPT_S = 60.0
_MOST_KEPT = 256
Key = tuple[str, str, str, str, str]


class ModelLookups:
    def __init__(self) -> None:
        self._slots = FairSlots(40, 4, most_waiting=8, wait_s=10.0)
        self._kept: OrderedDict[Key, tuple[float, ModelFacts]] = OrderedDict()

    async def facts(
        self,
        asker: str,
        hub: str,
        reference: ModelReference,
        token: str | None,
        gguf: str | None,
        clock: Clock,
    ) -> ModelFacts:
        """A hub may answer as slowly as it likes, so one person asks few at a time."""
        key = (asker, hub, str(reference), _digest(token), gguf or "")
        kept = self._kept.get(key)
        if kept is not None and clock.monotonic() - kept[0] < _KEPT_S:
            return kept[1]
        async with self._slots.taken(asker):
            facts = await look_up_model(hub, reference, token, gguf=gguf, clock=clock)
        self._kept[key] = (clock.monotonic(), facts)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return facts


def _digest(token: str | None) -> str:
    """The token itself is kept nowhere."""
    return hashlib.sha256(token.encode()).hexdigest() if token is not None else ""
