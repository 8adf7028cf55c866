"""All invariants of the parts that a seed runs, and the settings of these parts."""

from dataclasses import dataclass
from typing import Any

from tests.simulation import payments, receivers


@dataclass
class Checks:
    all: list[Any]
    """The first are those of containers, machines and money."""

    def check(self) -> None:
        for one in self.all:
            one.check()

    def check_settled(self) -> None:
        for one in self.all:
            one.check_settled()


def settings_of(parts: frozenset[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if "payments" in parts:
        settings |= payments.SETTINGS
    if "deliveries" in parts:
        settings |= receivers.SETTINGS
    return settings
