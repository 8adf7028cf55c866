"""What HAProxy counted of each limit, and this gateway's shares of them, in the tables that `rate_rules` counts in."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moorage.gateway.haproxy import Worker
from moorage.gateway.rate_rules import RATE_TABLES, Scope
from moorage.gateway.runtime_socket import HaproxyError

_ENTRY = re.compile(
    r"^0x[0-9a-f]+: key=(\S+) use=\d+ exp=(\d+) .*?gpt0=(\d+) .*?gpc0_rate\(\d+\)=(\d+)$", re.MULTILINE
)


class LimitName(NamedTuple):
    scope: Scope
    subject: str


@dataclass(frozen=True)
class Counted:
    used: int
    """Let in within the window."""
    share: int | None
    """None: none was set."""
    fades_soon: bool
    """HAProxy forgets it before long, and the share with it."""


async def read_counted(worker: Worker, least_used: Mapping[Scope, int]) -> dict[LimitName, Counted]:
    """Of limits with a share, and of those of which at least so much is used."""
    found: dict[LimitName, Counted] = {}
    for scope, table in RATE_TABLES.items():
        used_much = [f"data.gpc0_rate ge {least_used[scope]}"] if scope in least_used else []
        for those in ("data.gpt0 gt 0", *used_much):
            answer = await worker.ask(f"show table {table.name} {those}")
            if not answer.startswith("# table:"):
                raise HaproxyError(f"show table {table.name}: {answer[:200]!r}")
            for subject, left_ms, share, used in _ENTRY.findall(answer):
                fades_soon = int(left_ms) < table.kept_s * 500
                found[LimitName(scope, subject)] = Counted(int(used), int(share) or None, fades_soon)
    return found


async def set_shares(worker: Worker, shares: Iterable[tuple[LimitName, int | None]]) -> None:
    await worker.change(
        [
            f"set table {RATE_TABLES[name.scope].name} key {name.subject} data.gpt0 {share or 0}"
            for name, share in shares
        ]
    )
