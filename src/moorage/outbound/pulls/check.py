"""That a layer is what its manifest says, while its bytes pass: its digest, its size, and what it unpacks to. Pure."""

import hashlib
import threading

from moorage.outbound.pulls.unpacked import UnpackedSize


class LayerRefusedError(ValueError):
    """The message is what the registry answered with: `a layer that is longer than …`."""


class UnpackedTooLargeError(ValueError):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"more than {max_bytes} bytes")
        self.max_bytes = max_bytes


class UnpackedBudget:
    """What all layers of an image may unpack to. Layers are counted in several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._left_bytes = max_bytes
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> None:
        with self._lock:
            self._left_bytes -= size_bytes
            if self._left_bytes < 0:
                raise UnpackedTooLargeError(self._max_bytes)


class LayerCheck:
    """Lasts for a pull: a stream that breaks off and is taken up again goes on where the check stopped."""

    def __init__(self, digest: str, size_bytes: int, budget: UnpackedBudget) -> None:
        self.size_bytes = size_bytes
        self.position = 0
        """Everything before it was looked at."""
        self._digest = digest
        self._hash = hashlib.sha256()
        self._unpacked = UnpackedSize()
        self._budget = budget
        self._lock = threading.Lock()
        """A stream that was cut off may still be in its last call when the next one begins."""

    def feed(self, offset: int, data: bytes) -> None:
        """Bytes from `offset` on, which is not beyond `position`. What was seen before is passed over: the engine
        compares the digest of what it has, and it can have it only if it is what was seen here."""
        if offset + len(data) > self.size_bytes:
            raise LayerRefusedError("a layer that is longer than its manifest says")
        with self._lock:
            assert offset <= self.position, "no byte is left out"
            new = data[self.position - offset :]
            self._hash.update(new)
            for unpacked_bytes in self._unpacked.feed(new):
                self._budget.take(unpacked_bytes)
            self.position += len(new)

    def finish(self) -> None:
        """To be called before the last bytes are handed on."""
        if f"sha256:{self._hash.hexdigest()}" != self._digest:
            raise LayerRefusedError("a layer that does not have the digest it should")
