from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_LINE = r"^[^\x00-\x1f\x7f]*$"
_LINES = r"^[^\x00-\x1f\x7f]*(\n[^\x00-\x1f\x7f]*){0,7}$"


class BillingDetails(BaseModel):
    """Whom invoices are made out to."""

    name: str
    address: str
    tax_id: str


class BillingDetailsPatch(BaseModel):
    """What is not sent stays as it is. An empty name means the organization's."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=200, pattern=_LINE)] = ""
    address: Annotated[str, Field(max_length=500, pattern=_LINES)] = ""
    """Up to eight lines."""
    tax_id: Annotated[str, Field(max_length=64, pattern=_LINE)] = ""


class DocumentLine(BaseModel):
    description: str
    hours: int | None
    price_per_hour_microusd: int | None
    amount_microusd: int


class InvoiceSummary(BaseModel):
    month: str
    """`2026-11`, in UTC."""
    state: Literal["open", "issued"]
    """Open until the month is over: it grows, and has no number yet."""
    number: str | None
    issued_at: datetime | None
    total_microusd: int


class InvoiceList(BaseModel):
    items: list[InvoiceSummary]


class ReceiptSummary(BaseModel):
    id: str
    """The payment's, as the entries have it."""
    at: datetime
    number: str | None
    """Given within a minute of the payment."""
    description: str
    total_microusd: int


class BillingDocument(BaseModel):
    kind: Literal["invoice", "receipt", "statement"]
    number: str | None
    dated: date
    issued_at: datetime | None
    seller: BillingDetails
    buyer: BillingDetails
    lines: list[DocumentLine]
    total_microusd: int
    note: str
