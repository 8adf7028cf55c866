"""What an invoice, a receipt or a statement says. Pure.

A document that was issued never changes: it is stored as it was, with the names and addresses of its day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import MAXYEAR, date, datetime
from enum import StrEnum
from typing import Any


class DocumentKind(StrEnum):
    INVOICE = "invoice"
    """Of the hours that were bought in a calendar month (UTC)."""
    RECEIPT = "receipt"
    """Of one payment."""
    STATEMENT = "statement"
    """Of what an owner's machines earned in a calendar month."""


_PREFIXES = {DocumentKind.INVOICE: "INV", DocumentKind.RECEIPT: "RCT", DocumentKind.STATEMENT: "STM"}


@dataclass(frozen=True)
class Party:
    name: str
    address: str = ""
    """Its lines."""
    tax_id: str = ""


@dataclass(frozen=True)
class Line:
    description: str
    amount_microusd: int
    hours: int | None = None
    price_per_hour_microusd: int | None = None


@dataclass(frozen=True)
class Document:
    kind: DocumentKind
    number: int | None
    """None: its month is not over yet."""
    dated: date
    """The last day of an invoice's or a statement's month, or the day of the payment."""
    issued_at: datetime | None
    seller: Party
    buyer: Party
    lines: tuple[Line, ...]
    note: str = ""

    @property
    def total_microusd(self) -> int:
        return sum(line.amount_microusd for line in self.lines)

    @property
    def name(self) -> str:
        """`INV-000007`. Numbers count up from 1 without a gap, each kind for itself."""
        prefix = _PREFIXES[self.kind]
        return f"{prefix}-{self.number:06d}" if self.number is not None else f"{prefix}-preliminary"


def to_json(document: Document) -> dict[str, Any]:
    """What is stored beside the number and the time."""
    return {
        "dated": document.dated.isoformat(),
        "seller": asdict(document.seller),
        "buyer": asdict(document.buyer),
        "lines": [asdict(line) for line in document.lines],
        "note": document.note,
    }


def from_json(kind: DocumentKind, number: int, issued_at: datetime, stored: Mapping[str, Any]) -> Document:
    return Document(
        kind=kind,
        number=number,
        dated=date.fromisoformat(stored["dated"]),
        issued_at=issued_at,
        seller=Party(**stored["seller"]),
        buyer=Party(**stored["buyer"]),
        lines=tuple(Line(**line) for line in stored["lines"]),
        note=stored["note"],
    )


@dataclass(frozen=True)
class Usage:
    """Hours of one container and instance type that were bought at one price."""

    project_id: str
    project_name: str | None
    container_id: str
    container_name: str | None
    instance_type: str
    price_microusd: int
    hours: int
    amount_microusd: int


def usage_lines(usage: Sequence[Usage]) -> tuple[Line, ...]:
    """One for each container, instance type and price."""
    return tuple(
        Line(
            f"{one.container_name or one.container_id} ({one.project_name or one.project_id}), {one.instance_type}",
            one.amount_microusd,
            one.hours,
            one.price_microusd,
        )
        for one in usage
    )


def month_of(text: str) -> date | None:
    """`2026-11` → its first day; None for anything else, and for the last year, after which no month follows."""
    year, separator, month = text.partition("-")
    digits = len(text) == 7 and text.isascii() and separator and year.isdigit() and month.isdigit()
    if not digits or not 1 <= int(month) <= 12 or not 2000 <= int(year) < MAXYEAR:
        return None
    return date(int(year), int(month), 1)


def next_month(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)
