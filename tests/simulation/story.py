"""What happened in one seed, in words, and how often each thing did."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Story:
    now_s: Callable[[], float]
    lines: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    """Ids, and what to call them."""

    def tell(self, who: str, what: str) -> None:
        for long, short in self.names.items():
            if long in what:
                what = what.replace(long, short)
        self.lines.append(f"{clock_text(self.now_s())}  {who:<12} {what}")

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]


def clock_text(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours:3d}:{minutes:02d}:{rest:06.3f}"
