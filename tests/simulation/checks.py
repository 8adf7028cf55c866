"""All invariants of the parts that a seed runs, and the settings of these parts."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.simulation import payments, receivers
from tests.simulation.invariants import BrokenError


@dataclass
class Checks:
    all: list[Any]
    """The first are those of containers, machines and money."""
    watched: frozenset[str] | None = None
    """Only these count, while a certain bug is looked for."""

    def check(self) -> None:
        for one in self.all:
            with self._only_watched():
                one.check()

    def check_settled(self) -> None:
        for one in self.all:
            with self._only_watched():
                one.check_settled()

    @contextlib.contextmanager
    def _only_watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenError as exc:
            if self.watched is None or exc.name in self.watched:
                raise


def settings_of(parts: frozenset[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if "payments" in parts:
        settings |= payments.SETTINGS
    if "deliveries" in parts:
        settings |= receivers.SETTINGS
    return settings
