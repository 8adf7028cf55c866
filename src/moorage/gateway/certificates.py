"""Whether the certificate files are still the ones that HAProxy serves."""

import hashlib
from collections.abc import Sequence
from pathlib import Path


class Certificates:
    def __init__(self, files: Sequence[Path], record: Path) -> None:
        """`record` keeps what is served, so that a change is noticed also by an agent that was not there."""
        self._files = files
        self._record = record

    def changed(self) -> bool:
        if not self._files:
            return False
        return not self._record.exists() or self._record.read_text() != self._digest()

    def note_served(self) -> None:
        if self._files:
            self._record.write_text(self._digest())

    def _digest(self) -> str:
        # A file that is being replaced may be missing for a moment, which is a content like any other.
        contents = (path.read_bytes() if path.exists() else b"" for path in self._files)
        return "".join(hashlib.sha256(content).hexdigest() for content in contents)
