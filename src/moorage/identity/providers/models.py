from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class IdentityRow(Base):
    """An account at a provider that signs a user in. What names it is the pair, never the address."""

    __tablename__ = "identities"

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    email: Mapped[str]
    """As the provider gave it when the account was linked."""
    created_at: Mapped[CreatedAt]


class ProviderAttemptRow(Base):
    """A sign-in that was sent to a provider and is not back yet. Its token is in the browser's cookie; state, nonce and
    PKCE verifier follow from the token, so nothing here is of use to whoever reads it."""

    __tablename__ = "provider_attempts"
    __table_args__ = (
        Index("ix_provider_attempts_source_expires_at", "source", "expires_at"),
        Index("ix_provider_attempts_expires_at", "expires_at"),
    )

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    provider: Mapped[str]
    return_to: Mapped[str]
    source: Mapped[str]
    """Where it was begun."""
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
