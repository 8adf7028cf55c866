"""What each person of an afternoon may do at most, as far as answers tell.

A right that was taken, and that was answered, is gone for whatever is asked afterwards; one that is being given may be there
already. Where both go on at once nobody can tell, and nothing is judged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.world import World

NOTHING, USER, ADMIN = 0, 1, 2
_WORDS = {NOTHING: "was removed", USER: "is no admin any more"}


@dataclass
class Bound:
    most: int = ADMIN
    raised: int = 0
    """How often somebody began to give them more."""
    being_raised: int = 0


@dataclass
class Rights:
    world: World
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """Invariant and sentence: what an answer showed."""
    bounds: dict[str, Bound] = field(default_factory=dict)
    """By name."""
    revoked: dict[str, float] = field(default_factory=dict)
    """By id of a key: when its end was answered."""
    keeps_keys: set[str] = field(default_factory=set)
    """Users whose keys were to outlive their right, because whoever ended it said so."""
    accepted: dict[str, int] = field(default_factory=dict)
    """By token: how often it was."""

    def bound(self, name: str) -> Bound:
        return self.bounds.setdefault(name, Bound())

    @contextmanager
    def raising(self, name: str) -> Iterator[None]:
        """From the moment it is asked for; what comes of it is unknown, so it is taken for granted."""
        bound = self.bound(name)
        bound.raised += 1
        bound.being_raised += 1
        bound.most = ADMIN
        try:
            yield
        finally:
            bound.being_raised -= 1

    def moment(self, name: str) -> int | None:
        """To compare with a later one; none while something is being given."""
        bound = self.bound(name)
        return None if bound.being_raised else bound.raised

    def lowered(self, name: str, to: int, since: int | None) -> bool:
        """The end of a right was answered, and asked for at that moment. Whether it is sure."""
        if since is None or self.moment(name) != since:
            return False
        self.bound(name).most = min(self.bound(name).most, to)
        return True

    def judge(
        self, name: str, since: int | None, most: int, needs: int, words: str, status: int | None
    ) -> None:
        """An answer to what was asked when they might do `most` at most."""
        carried_out = status is not None and status < 300
        if carried_out and most < needs and since is not None and self.moment(name) == since:
            self.wrong.append(("who was removed can do nothing", f"{name} {_WORDS[most]}, and could {words}"))

    def judge_key(self, key_id: str, was_revoked: bool, words: str, status: int | None) -> None:
        if was_revoked and status is not None and status < 300:
            self.wrong.append(("a revoked key opens nothing", f"{key_id} was revoked, and could {words}"))

    def accept(self, token: str, words: str) -> None:
        self.accepted[token] = self.accepted.get(token, 0) + 1
        if self.accepted[token] > 1:
            self.wrong.append(("an invitation makes what its maker may give", f"{words}: a second time"))

    def key_ended(self, key_id: str) -> None:
        self.revoked.setdefault(key_id, self.world.now_s())
