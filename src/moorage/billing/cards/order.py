"""What a payment at the provider is for. Pure.

It travels with the payment, so that the payment can say it without us: after a backup was restored, the provider may
know of payments that the rows do not.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Order:
    top_up_id: str
    installation_id: str | None = None
    """One account may be used by several. None, as the two below: from before this was written down."""
    organization_id: str | None = None
    requested_by: str | None = None
    automatic: bool = False
    """With a saved card and nobody present."""

    def to_metadata(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items() if value is not None}

    @staticmethod
    def from_metadata(metadata: Mapping[str, str]) -> "Order | None":
        """None where the payment is for something else: the account may sell other things too."""
        if "top_up_id" not in metadata:
            return None
        return Order(
            top_up_id=metadata["top_up_id"],
            installation_id=metadata.get("installation_id"),
            organization_id=metadata.get("organization_id"),
            requested_by=metadata.get("requested_by"),
            automatic=metadata.get("automatic") == str(True),
        )
