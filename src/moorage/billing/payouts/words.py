"""Mails about money that is sent to owners of machines. Pure."""

from datetime import datetime

from moorage.kit.money import format_usd

Mail = tuple[str, str]
"""Its subject and its text."""


def account_changed_mail(organization: str, shown_account: str, by: str, frozen_until: datetime) -> Mail:
    subject = f"{organization}: the account for earnings was changed"
    text = (
        f"{by} changed the bank account for the earnings of {organization}. The new account ends in "
        f"{shown_account}.\n\n"
        f"No money is sent before {frozen_until:%Y-%m-%d %H:%M} UTC. If none of you made this change, change "
        "the account back before then and remove that member.\n"
    )
    return subject, text


def requested_mail(organization: str, payout_id: str, amount_microusd: int) -> Mail:
    """For the operator."""
    subject = f"{organization} asks for {format_usd(amount_microusd)}"
    text = (
        f"{organization} asks for a payout of {format_usd(amount_microusd)}, earned by its machines.\n\n"
        "`moor operator payouts list` shows the account to send it to. After the transfer, run "
        f"`moor operator payouts confirm {payout_id} --reference …`.\n"
    )
    return subject, text


def confirmed_mail(amount_microusd: int, shown_account: str, reference: str) -> Mail:
    subject = f"{format_usd(amount_microusd)} was sent to you"
    text = (
        f"The operator sent {format_usd(amount_microusd)} of your machines' earnings to your account ending "
        f"in {shown_account}. Reference: {reference}.\n"
    )
    return subject, text


def refused_mail(amount_microusd: int, reason: str) -> Mail:
    subject = f"Your payout of {format_usd(amount_microusd)} was refused"
    text = f"Your payout of {format_usd(amount_microusd)} was refused: {reason}\n\nYour earnings are unchanged.\n"
    return subject, text
