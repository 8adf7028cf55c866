"""Secret values in what a replica printed, found and covered. Pure.

Each line of a value is covered by itself, if it has 8 characters or more: shorter ones are words such as `true` that
would blacken half of the log. Values come from users, so what they cost is bounded: all of them are found in one pass
of an automaton (Aho-Corasick), whose size follows their length and whose time follows the line's.

One pass stays one only while no match has to wait long for a longer one: with `aaaaaaaa` and 10,000 times `a`, the
leftmost longest match would look 10,000 characters ahead at each step. So a long secret is looked for in pieces, which
lie behind each other where it is printed and are covered as one. A piece alone, as of a key that was cut, is covered too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ahocorasick_rs import AhoCorasick, MatchKind

from moorage.telemetry.logs.visible import visible

MASK = "••••••"
MIN_SECRET_CHARACTERS = 8
PIECE_CHARACTERS = 64
"""A secret of twice as many, or more, is looked for in pieces of this length, the last one longer."""
_LONGEST_CHARACTER_BYTES = 4


@dataclass(frozen=True)
class Masker:
    """The secrets of one container, ready to be looked for."""

    finder: AhoCorasick | None = None
    longest_bytes: int = 0
    """How much of a line beyond its limit has to be known, so that no secret is cut before it is found."""

    def hide(self, text: str) -> str:
        if self.finder is None:
            return text
        found = self.finder.find_matches_as_indexes(text)
        if not found:
            return text
        parts: list[str] = []
        kept_from = 0
        for _, start, end in found:
            if start > kept_from or not parts:  # else it goes on from the piece before
                parts += [text[kept_from:start], MASK]
            kept_from = end
        parts.append(text[kept_from:])
        return "".join(parts)

    def end_of_secret_at(self, text: str, position: int) -> int:
        """`position`, or the end of the secret, or of its piece, that it lies in the middle of."""
        if self.finder is not None:
            for _, start, end in self.finder.find_matches_as_indexes(text):
                if start < position < end:
                    return end
        return position


def masker_of(secret_values: Iterable[str]) -> Masker:
    lines = (
        visible(line).strip() for value in secret_values for line in value.replace("\x00", "").splitlines()
    )
    pieces = {piece for line in lines if len(line) >= MIN_SECRET_CHARACTERS for piece in _pieces(line)}
    if not pieces:
        return Masker()
    finder = AhoCorasick(sorted(pieces), matchkind=MatchKind.LeftmostLongest, store_patterns=False)
    return Masker(finder, max(map(len, pieces)) * _LONGEST_CHARACTER_BYTES)


def _pieces(secret: str) -> Iterator[str]:
    count = max(1, len(secret) // PIECE_CHARACTERS)
    ends = [PIECE_CHARACTERS * number for number in range(count)] + [len(secret)]
    for start, end in pairwise(ends):
        yield secret[start:end]
