"""Whether the certificate files are still the ones that HAProxy serves."""

import hashlib
from collections.abc import Sequence
from pathlib import Path


class Certificates:
    def __init__(self, files: Sequence[Path], record: Path) -> None:
        """`record` keeps what is served, so that a change is noticed also by an agent that was not there."""
        self._files = files
        self._record = record
        self._served: str | None = None
        """What the record says, or was to say: on a full disk it is not written, and nothing is served anew because of that."""

    def changed(self) -> bool:
        if not self._files:
            return False
        if self._served is None and self._record.exists():
            self._served = self._record.read_text()
        return self._served != self.digest()

    def note_served(self, digest: str) -> None:
        """`digest`: of before HAProxy read them. What came later, or was read by nobody because we were killed, is still to be served."""
        self._served = digest
        if self._files:
            self._record.write_text(digest)

    def digest(self) -> str:
        return "".join(hashlib.sha256(_content(path)).hexdigest() for path in self._files)


def _content(path: Path) -> bytes:
    """A file that is being replaced may be missing for a moment, or one that the operator brings be open to nobody, which is a content like
    any other: routes change all the same."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
