"""What this process noted about replicas that are yet to start: who lacks its image, and whose engine was at fault how often.

By container, because a start may end after its row did: what it leaves is thrown away with the next pass over the container, with
the container, or once this process leads no more.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from moorage.containers.models import ReplicaRow


@dataclass
class Starts:
    _without_image: dict[str, set[str]] = field(init=False, default_factory=dict)
    """On machines that have not got their image yet."""
    _failed: dict[str, dict[str, int]] = field(init=False, default_factory=dict)
    """By replica: how often in a row its engine was at fault."""

    def lacks_image(self, replica: ReplicaRow) -> bool:
        return replica.id in self._without_image.get(replica.container_id, ())

    def note_lack_of_image(self, replica: ReplicaRow) -> None:
        self._without_image.setdefault(replica.container_id, set()).add(replica.id)

    def note_image(self, replica: ReplicaRow) -> None:
        self._without_image.get(replica.container_id, set()).discard(replica.id)

    def note_failure(self, replica: ReplicaRow) -> int:
        """How many there were in a row."""
        failed = self._failed.setdefault(replica.container_id, {})
        failed[replica.id] = failed.get(replica.id, 0) + 1
        return failed[replica.id]

    def note_start(self, replica: ReplicaRow) -> None:
        self._failed.get(replica.container_id, {}).pop(replica.id, None)

    def keep_only(self, container_id: str, requested: Collection[str]) -> None:
        """Of its replicas these are yet to start: what was noted about others is over."""
        without = self._without_image.pop(container_id, set()) & set(requested)
        if without:
            self._without_image[container_id] = without
        failed = self._failed.pop(container_id, {})
        if left := {one: count for one, count in failed.items() if one in requested}:
            self._failed[container_id] = left

    def forget(self, container_id: str) -> None:
        self.keep_only(container_id, ())

    def forget_all(self) -> None:
        self._without_image.clear()
        self._failed.clear()
