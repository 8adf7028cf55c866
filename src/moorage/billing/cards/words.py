"""Mails about cards. Pure."""

from moorage.kit.money import format_usd


def charged_mail(amount_microusd: int) -> tuple[str, str]:
    """Subject and text."""
    amount = format_usd(amount_microusd)
    text = (
        f"Your credit fell below the amount that you set, so Moorage charged your saved card {amount} and "
        "added it to your credit. To change or stop this, open Billing or run `moor billing auto-top-up`.\n"
    )
    return f"Your card was charged {amount}", text


def unknown_payment_mail(
    intent_id: str, amount_microusd: int, organization_id: str | None
) -> tuple[str, str]:
    """To the operator."""
    whose = "names no organization"
    if organization_id is not None:
        whose = f"names the organization {organization_id}, which does not exist here"
    text = (
        f"The payment provider has a payment of {format_usd(amount_microusd)}, {intent_id}, that {whose}. "
        "Perhaps somebody restored a backup that is older than the payment. Moorage booked nothing. Give "
        "the payer the credit with `moor operator credit`, or refund the payment at the provider.\n"
    )
    return f"A card payment of {format_usd(amount_microusd)} belongs to nobody here", text
