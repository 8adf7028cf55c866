"""Monthly spending limits, of an organization as a whole or of one of its projects. Pure.

A month is a calendar month in UTC. What is held for replicas that come up counts as spent for the question whether
another hour fits, because it is bought as soon as they are ready.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from moorage.kit.money import format_usd


@dataclass(frozen=True)
class Spent:
    """By one project, in this month."""

    bought_microusd: int = 0
    held_microusd: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.bought_microusd + other.bought_microusd, self.held_microusd + other.held_microusd)


@dataclass(frozen=True)
class Limit:
    scope_id: str
    """The organization's id or the project's."""
    limit_microusd: int
    spent: Spent
    month: date
    """Its first day."""

    @property
    def left_microusd(self) -> int:
        return max(self.limit_microusd - self.spent.bought_microusd - self.spent.held_microusd, 0)


@dataclass(frozen=True)
class Refused:
    """An hour that was not bought."""

    limit: Limit | None
    """The one that it does not fit into; None: the credit does not cover it."""


def tightest(limits: Iterable[Limit]) -> Limit | None:
    return min(limits, key=lambda limit: (limit.left_microusd, limit.scope_id), default=None)


def next_month(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def over_limit_sentence(limit: Limit, needed_microusd: int) -> str:
    whose = "project" if limit.scope_id.startswith("prj_") else "organization"
    return (
        f"This needs {format_usd(needed_microusd)}. The monthly spending limit of this {whose} is "
        f"{format_usd(limit.limit_microusd)}, of which {format_usd(limit.left_microusd)} is left until "
        f"{next_month(limit.month)}. An admin can raise it: under Billing, or with `moor billing limits`."
    )
