"""Mails about money that is sent to owners of machines. Pure."""

from datetime import datetime

from moorage.kit.money import format_usd

Mail = tuple[str, str]
"""Its subject and its text."""


def account_changed_mail(organization: str, shown_account: str, by: str, frozen_until: datetime) -> Mail:
    subject = f"{organization}: earnings are sent to another account"
    text = (
        f"{by} changed the bank account that the earnings of {organization} are sent to. It now ends with {shown_account}.\n\n"
        f"Nothing is sent before {frozen_until:%Y-%m-%d %H:%M} UTC. If this was not one of you, change it back until then, and remove "
        "whoever did it.\n"
    )
    return subject, text


def requested_mail(organization: str, payout_id: str, amount_microusd: int) -> Mail:
    """For the operator."""
    subject = f"{organization} asks for {format_usd(amount_microusd)}"
    text = (
        f"{organization} asks for a payout of {format_usd(amount_microusd)} that its machines earned.\n\n"
        "`moor operator payouts list` says where to send it. Then confirm it: "
        f"`moor operator payouts confirm {payout_id} --reference …`.\n"
    )
    return subject, text


def confirmed_mail(amount_microusd: int, shown_account: str, reference: str) -> Mail:
    subject = f"{format_usd(amount_microusd)} was sent to you"
    text = (
        f"{format_usd(amount_microusd)} that your machines earned was sent to your account that ends with {shown_account}. "
        f"Reference: {reference}.\n"
    )
    return subject, text


def refused_mail(amount_microusd: int, reason: str) -> Mail:
    subject = f"Your payout of {format_usd(amount_microusd)} was refused"
    text = f"Your payout of {format_usd(amount_microusd)} was refused: {reason}\n\nNothing was taken from your earnings.\n"
    return subject, text
