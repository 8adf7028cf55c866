"""What is kept of a run: a line of JSON for each seed, written as it ends, so that a run that is cut off still counts."""

import json
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

RARE = (
    "controller killed",
    "controller stopped",
    "gateway killed",
    "api killed",
    "crash after commit",
    "crash before engine call",
    "crash after engine call",
    "commit in doubt",
    "statement lost",
    "notification lost",
    "engine fails",
    "engine reply lost",
    "engine answer stale",
    "engine slow",
    "engine wiped",
    "replica vanished",
    "replica ended",
    "postgres failed over",
    "database clock jumped",
    "process clock jumped",
    "renewals away",
    "lock waits",
    "engine words lost",
    "late start",
    "change of mind",
    "two at once",
    "what was deleted is touched",
    "a name that is taken",
    "scaling meets a draft",
    "a leader stops at work",
    "a gateway misses a change",
    "process ended by itself",
    "paid on a page",
    "card saved",
    "charged by itself",
    "charge refused",
    "refunded",
    "disputed",
    "dispute won",
    "dispute lost",
    "event lost",
    "event late",
    "event repeated",
    "provider fails",
    "provider reply lost",
    "provider answer stale",
    "provider slow",
    "crash before provider call",
    "crash after provider call",
    "mail taken",
    "mail refused",
    "mail put off",
    "webhook delivered",
    "webhook refused",
    "webhook ended",
    "receiver gone",
    "receiver not reachable",
    "receiver reply lost",
    "receiver slow",
    "crash after delivery",
    "invitation accepted",
    "member removed",
    "member left",
    "role taken",
    "key made",
    "key used",
    "key refused",
    "key revoked",
    "accepted while its maker goes",
    "invited while they accept",
    "accepted twice at once",
    "admins remove each other",
    "a key is made as its maker goes",
    "a key is made with one that ends",
    "GPU lost in use",
    "all GPUs lost",
    "GPU came back",
    "machine joined",
    "machine lost its power",
    "machine cut off",
    "machine cut off from the controller",
    "machine came back",
    "machine draining",
    "machine removed",
    "machine left",
    "fell asleep",
    "woken by a request",
    "woken by hand",
    "asleep in use",
    "wake failed",
    "request held",
    "told to wait",
    "client left",
    "answered hold_full",
    "answered wake_interrupted",
    "answered invalid_api_key",
    "key revoked in the night",
    "a machine lost most",
    "a mind changed at last",
    "a controller is killed during a wake",
    "no controller for a while during a wake",
    "the gateway is killed during a wake",
    "the gateway is stopped during a wake",
    "Postgres fails over during a wake",
    "the engine is wiped during a wake",
    "a replica dies during a wake",
    "a machine loses its power during a wake",
    "stop of what sleeps",
    "delete of what sleeps",
    "update of what sleeps",
    "restart of what sleeps",
)
"""What a long run must have seen, or it proves nothing."""
SEEDS_FOR_RARE = 200


@dataclass(frozen=True)
class Result:
    commit: str
    seed: int
    fingerprint: str
    virtual_s: float
    real_s: float
    broken: str | None
    sentence: str
    counts: dict[str, float]

    def line(self) -> str:
        return (
            f"{self.seed:6d} {self.fingerprint} {self.virtual_s / 3600:6.1f} h {self.real_s:6.1f} s "
            f"{self.broken or 'ok'} {self.sentence[:160]}"
        )


def keep(file: Path, result: Result) -> None:
    with file.open("a") as kept:
        kept.write(json.dumps(asdict(result)) + "\n")


def kept_in(file: Path) -> list[Result]:
    """The last line may have been cut off."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Result(**json.loads(line)) for line in lines if line.endswith("}")]


def summary(results: list[Result]) -> str:
    """In all, what failed, and how often everything happened."""
    failed = [one for one in results if one.broken]
    hours = sum(one.virtual_s for one in results) / 3600
    real_s = sum(one.real_s for one in results)
    commits = ", ".join(sorted({one.commit for one in results}))
    seeds = ranges({one.seed for one in results})
    lines = [f"{commits}: seeds {seeds}"]
    lines.append(f"{len(results)} seeds, {hours:.0f} virtual hours, {real_s:.0f} s, {len(failed)} failed")
    for name, count in Counter(one.broken for one in failed).most_common():
        lines.append(f"  {count} {name}: {sorted(one.seed for one in failed if one.broken == name)}")
    lines.append(", ".join(f"{name} {count:.0f}" for name, count in sorted(total(results).items())))
    if missing := never_happened(results):
        lines.append(f"never happened, so nothing is shown about it: {', '.join(missing)}")
    return "\n".join(lines)


def total(results: list[Result]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in results:
        counts.update(one.counts)  # type: ignore[arg-type]
    return counts


def never_happened(results: list[Result]) -> list[str]:
    counts = total(results)
    return [name for name in RARE if counts[name] == 0] if len(results) >= SEEDS_FOR_RARE else []


def ranges(seeds: set[int]) -> str:
    """1-40, 43."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][1] == seed - 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


@cache
def commit() -> str:
    """With a sign where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=7", "--exclude=*"]
    root = Path(__file__).parent
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
