"""Mails about cards. Pure."""

from moorage.kit.money import format_usd


def charged_mail(amount_microusd: int) -> tuple[str, str]:
    """Subject and text."""
    amount = format_usd(amount_microusd)
    text = (
        f"The credit fell below what you asked to keep, so your saved card was charged {amount}, and the credit was "
        "added. To change or stop this, see Billing, or `moor billing auto-top-up`.\n"
    )
    return f"Your card was charged {amount}", text


def unknown_payment_mail(
    intent_id: str, amount_microusd: int, organization_id: str | None
) -> tuple[str, str]:
    """To the operator."""
    whose = "does not say which organization it is for"
    if organization_id is not None:
        whose = f"is for the organization {organization_id}, which is not known here"
    text = (
        f"The card payments' provider has a payment of {format_usd(amount_microusd)}, {intent_id}, that {whose}. Perhaps a "
        "backup was restored that is older than the payment. Nothing was booked. Give the credit to whoever paid with "
        "`moor operator credit`, or refund the payment at the provider.\n"
    )
    return f"A card payment of {format_usd(amount_microusd)} belongs to nobody here", text
