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
