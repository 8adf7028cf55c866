"""What hubs said a moment ago, so that a person who moves a slider asks them once.

Kept for a minute and for whoever asked, with the token they gave: what one person may see of a private model is nobody else's. What
is kept was written by strangers, and how often it is asked for is the askers' to choose, so it is bounded for each of them and in all.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from moorage.kit.clock import Clock
from moorage.kit.fair_slots import FairSlots
from moorage.models.facts import ModelFacts
from moorage.models.hub import look_up_model
from moorage.models.hub_words import HubBusyError, HubWords
from moorage.models.pace import LookupPace
from moorage.models.reference import ModelReference

_KEPT_S = 60.0
_MOST_OF_ONE_ASKER = 4
_MOST_BYTES_EACH = 128 << 10
"""Configurations that people publish have a few kilobytes. What is larger is looked up again each time."""
_MOST_BYTES = 4 << 20
"""Of text; parsed, it takes about ten times as much."""
_ANY_FILE = "*"
"""No file has that name."""
Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class _Kept:
    since_s: float
    facts: ModelFacts


class ModelLookups:
    def __init__(self) -> None:
        self._slots = FairSlots(40, 4, most_waiting=8, wait_s=10.0)
        self._pace = LookupPace()
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        """The oldest first."""

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
        whose = (asker, hub, str(reference), _digest(token))
        self._forget_old(clock.monotonic())
        kept = self._kept.get((*whose, gguf or "")) or self._kept.get((*whose, _ANY_FILE))
        if kept is not None:
            return kept.facts
        self._refuse_too_many(asker, hub, reference, token, clock.monotonic())
        try:
            async with self._slots.taken(asker):
                facts = await look_up_model(hub, reference, token, gguf=gguf, clock=clock)
        except HubBusyError as exc:
            if token is None:
                self._pace.pause(hub, exc.wait_s, clock.monotonic())
            raise
        # Which file was wanted says something about a repository that has GGUF files alone.
        file = gguf or "" if facts.has_gguf else _ANY_FILE
        self._keep((*whose, file), _Kept(clock.monotonic(), facts))
        return facts

    def _refuse_too_many(
        self, asker: str, hub: str, reference: ModelReference, token: str | None, now_s: float
    ) -> None:
        left_s = self._pace.pause_left_s(hub, now_s)
        if left_s and token is None:
            raise HubWords(hub, reference, has_token=False).paused(left_s)
        self._pace.take(asker, now_s)

    def _keep(self, key: Key, new: _Kept) -> None:
        self._forget_old(new.since_s)
        if new.facts.text_bytes > _MOST_BYTES_EACH:
            return
        self._kept[key] = new
        self._kept.move_to_end(key)
        of_asker = [one for one in self._kept if one[0] == key[0]]
        for one in of_asker[:-_MOST_OF_ONE_ASKER]:
            del self._kept[one]
        while sum(one.facts.text_bytes for one in self._kept.values()) > _MOST_BYTES:
            self._kept.popitem(last=False)

    def _forget_old(self, now_s: float) -> None:
        while self._kept and now_s - next(iter(self._kept.values())).since_s >= _KEPT_S:
            self._kept.popitem(last=False)


def _digest(token: str | None) -> str:
    """The token itself is kept nowhere."""
    return hashlib.sha256(token.encode()).hexdigest() if token is not None else ""
