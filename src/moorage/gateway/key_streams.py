"""Requests that run on although their key was revoked or has expired: they are found and ended.

HAProxy asks for a key when a request begins and never again, and neither `show sess` nor its commands know of keys. So each
request that is let in is tracked in a table (`endpoint_rules`), under the beginning of its key's hash and its own number.
HAProxy keeps an entry for as long as its request runs. `show sess all` says which session has that number.
"""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

import structlog

from moorage.gateway.commands import end_session
from moorage.gateway.endpoint_rules import HASH_START_LENGTH, RUNNING_TABLE
from moorage.gateway.haproxy import Worker, Workers
from moorage.gateway.map_values import map_key_of
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.table import KeyEntry
from moorage.gateway.workers import AllWorkers
from moorage.kit.clock import Clock

log = structlog.get_logger()

LOOK_EVERY_S = 10.0
"""In between, only when a key has gone."""
PAUSE_S = 2.0
"""After requests were ended: whoever makes and revokes keys all the time must not have HAProxy tell of all its sessions all
the time."""
_RUNNING = re.compile(rf"^0x[0-9a-f]+: key=([0-9A-F]{{{HASH_START_LENGTH}}}):(\d+) use=[1-9]", re.MULTILINE)
_SESSION = re.compile(r"^(0x[0-9a-f]+): \[[^\]]*\] id=(\d+) ", re.MULTILINE)
_NO_TABLE = "No such table"
"""A worker that an earlier version's configuration started, which a reload is about to end."""


@dataclass
class KeyStreams:
    all_workers: AllWorkers
    clock: Clock
    _looked_at_s: float = field(init=False, default=float("-inf"))
    _hash_starts: Set[str] = field(init=False, default=frozenset())
    """Of the keys that worked at the last look."""
    _keys_changed: bool = field(init=False, default=False)
    """Since then."""
    _paused_until_s: float = field(init=False, default=float("-inf"))

    async def end_without_key(
        self, keys: Mapping[str, KeyEntry], workers: Workers, *, keys_changed: bool
    ) -> int:
        """To be called once HAProxy lets nobody in with the others any more. Returns how many were ended."""
        now_s = self.clock.monotonic()
        late = now_s - self._looked_at_s >= LOOK_EVERY_S
        self._keys_changed |= keys_changed
        if not late and (not self._keys_changed or now_s < self._paused_until_s):
            return 0
        valid = frozenset(_hash_starts(keys, self.clock.now().timestamp()))
        if not late and valid >= self._hash_starts:
            self._keys_changed = False
            return 0  # Keys have only come.
        self._looked_at_s = float("-inf")  # Until all went well.
        ended = await self.all_workers.sum_of(lambda worker: _end(worker, valid), workers)
        self._looked_at_s, self._hash_starts, self._keys_changed = now_s, valid, False
        if ended:
            self._paused_until_s = now_s + PAUSE_S
            log.info("requests_without_key_ended", requests=ended)
        return ended


async def _end(worker: Worker, valid: Set[str]) -> int:
    answer = await worker.ask(f"show table {RUNNING_TABLE}")
    if not answer.startswith("# table:"):
        if _NO_TABLE in answer:
            return 0
        raise HaproxyError(f"show table {RUNNING_TABLE}: {answer[:200]!r}")
    numbers = {number for start, number in _RUNNING.findall(answer) if start not in valid}
    if not numbers:
        return 0
    sessions = _SESSION.findall(await worker.ask("show sess all"))
    commands = [end_session(session) for session, number in sessions if number in numbers]
    # One that ended by itself meanwhile is what was wanted.
    await worker.change(commands, tolerate=("No such session",))
    return len(commands)


def _hash_starts(keys: Mapping[str, KeyEntry], now_epoch_s: float) -> Iterator[str]:
    for key_hash, entry in keys.items():
        if not entry.expires_at_epoch_s or entry.expires_at_epoch_s > now_epoch_s:
            yield map_key_of(key_hash[:HASH_START_LENGTH])
