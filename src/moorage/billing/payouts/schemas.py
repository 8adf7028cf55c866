from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_LINE = r"^[^\x00-\x1f\x7f]*$"


def _can_be_seen(text: str) -> str:
    """The operator reads it before money is sent: nothing in it may turn around or hide what stands beside it."""
    if not text.isprintable():
        raise ValueError("must be of characters that can be seen")
    return text


Line = Annotated[str, Field(max_length=140, pattern=_LINE), AfterValidator(_can_be_seen)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PayoutAccountWrite(_Strict):
    """Where to send what was earned."""

    holder: Annotated[Line, Field(min_length=2)]
    """The account holder's name, as the bank knows it."""
    account: Annotated[str, Field(min_length=4, max_length=42, pattern=r"^[A-Za-z0-9 -]+$")]
    """The IBAN or account number."""
    bank: Line = ""
    """The BIC, or another name of the bank if the account number does not identify it."""


class PayoutAccount(BaseModel):
    """What people see of it; the whole of it is shown to the operator alone."""

    account: str | None
    """Its last four characters. Null if there is no account."""
    changed_at: datetime | None
    frozen_until: datetime | None
    """Nothing is sent before this time, because the account was changed recently."""


class Payout(BaseModel):
    id: str
    organization_id: str
    amount_microusd: int
    state: Literal["requested", "confirmed", "refused"]
    account: str
    """Its last four characters."""
    created_at: datetime
    decided_at: datetime | None
    reference: str | None
    """Of the transfer."""
    reason: str | None
    """Why it was refused."""


class OperatorPayout(Payout):
    organization_name: str
    holder: str | None
    """The account to send it to while it waits. Null once it is decided."""
    account_number: str | None
    bank: str | None
    covered_microusd: int | None
    """How much of it is payable now, because earnings may have been taken back since. Null once it is decided."""
    frozen_until: datetime | None


class PayoutConfirm(_Strict):
    reference: Annotated[str, Field(min_length=1, max_length=140, pattern=_LINE)]
    """The transfer's reference, for the organization to find it by."""
    sent: bool = False
    """It has been sent although it should not have been, or was refused meanwhile: book it, and let later earnings make up
    for it."""


class PayoutRefuse(_Strict):
    reason: Annotated[str, Field(min_length=3, max_length=300, pattern=_LINE)]
    """Shown to the organization."""


class EarningsVoid(_Strict):
    reason: Annotated[str, Field(min_length=3, max_length=300, pattern=_LINE)]
    """For the owner's audit log."""
