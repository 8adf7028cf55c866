"""The mail about an organization that was deleted. Pure."""

from moorage.kit.money import format_usd


def deleted_mail(
    organization: str, by: str, given_up_microusd: int, *, is_admin: bool, support_contact: str
) -> tuple[str, str]:
    subject = f"{organization} was deleted on Moorage"
    text = f"{by} deleted the organization {organization}. You are no longer a member, and its API keys no longer work.\n"
    if is_admin and given_up_microusd:
        text += (
            "\n"
            f"{format_usd(given_up_microusd)} of credit was left and can no longer be used. The operator "
            "keeps the books, invoices and receipts. For a copy, or about credit that you paid for and did "
            f"not use, write to {support_contact}.\n"
        )
    elif is_admin:
        text += (
            "\n"
            f"The operator keeps the books, invoices and receipts. For a copy, write to {support_contact}.\n"
        )
    return subject, text
