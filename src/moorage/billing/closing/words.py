"""The mail about an organization that was deleted. Pure."""

from moorage.kit.money import format_usd


def deleted_mail(
    organization: str, by: str, given_up_microusd: int, *, is_admin: bool, support_contact: str
) -> tuple[str, str]:
    subject = f"{organization} was deleted on Moorage"
    text = f"{by} deleted the organization {organization}. You are no longer its member, and its API keys have ended.\n"
    if is_admin and given_up_microusd:
        text += (
            f"\n{format_usd(given_up_microusd)} was left, and cannot be used any more. The books, invoices and receipts stay with the "
            f"operator. For these, or for what was paid and not used, write to {support_contact}.\n"
        )
    elif is_admin:
        text += (
            "\nThe books, invoices and receipts stay with the operator. If you need one of them, write to "
            f"{support_contact}.\n"
        )
    return subject, text
