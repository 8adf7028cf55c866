"""How a line of commands reaches a socket of HAProxy, and what its answer says of it.

Each call opens its own connection, has a timeout and raises with HAProxy's own words.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage.kit.errors import MoorageError

# HAProxy reads a line of commands, payload included, into one buffer of 16 kB.
_BATCH_BYTES = 12_000
_COMMAND = re.compile(r"[A-Za-z0-9 _/.:@!?=&%~+,\[\]*-]+")
_DONE = ("New server registered.", "Server deleted.")


class HaproxyError(MoorageError):
    """HAProxy could not be asked, or refused a command."""

    code = "haproxy_error"


@dataclass(frozen=True)
class Socket:
    """One line of commands out, one answer back."""

    path: Path
    timeout_s: float = 10.0

    async def ask(self, line: str) -> str:
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, writer = await asyncio.open_unix_connection(str(self.path))
                try:
                    writer.write(line.encode("ascii") + b"\n")
                    writer.write_eof()
                    answer = await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as exc:
            raise HaproxyError(f"HAProxy's socket {self.path} does not answer") from exc
        return answer.decode("utf-8", "replace")


def checked(command: str) -> str:
    # The last gate: one line, one command, no payload marker, no escapes, whatever the callers did.
    if _COMMAND.fullmatch(command) is None:
        raise ValueError(f"{command!r} is not a single runtime command")
    return command


def batches(items: Sequence[str], *, separator: str) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for item in items:
        # Through the master each command carries a prefix of at most 12 bytes.
        item_size = len(item) + len(separator) + 12
        if batch and size + item_size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch


def raise_on_complaint(answer: str, sent: str, tolerate: tuple[str, ...] = ()) -> None:
    complaints = [line for line in answer.splitlines() if line and not line.startswith(_DONE + tolerate)]
    if complaints:
        raise HaproxyError(f"HAProxy answered {' / '.join(complaints)[:500]!r} to {sent[:500]!r}")
