"""Tables of invoices and receipts. What was issued is written once: a trigger refuses every change."""

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class BillingDetailsRow(Base):
    """Whom an organization's invoices are made out to."""

    __tablename__ = "billing_details"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    name: Mapped[str]
    address: Mapped[str]
    tax_id: Mapped[str]


class BillingDocumentRow(Base):
    __tablename__ = "billing_documents"
    __table_args__ = (
        UniqueConstraint("kind", "organization_id", "subject"),
        CheckConstraint("kind IN ('invoice', 'receipt', 'statement')", name="kind"),
        CheckConstraint("number > 0", name="number"),
    )

    kind: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    subject: Mapped[str]
    """The month of an invoice or a statement (`2026-11`), the transaction of a receipt."""
    issued_at: Mapped[CreatedAt]
    content: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """`document.to_json`."""
