"""What is said about automatic top-ups. Pure."""

from datetime import datetime

from moorage.billing.auto_top_ups.rules import Policy, Step
from moorage.kit.money import format_usd

Mail = tuple[str, str]
"""Subject and text."""


def step_sentence(step: Step, policy: Policy, again_at: datetime | None) -> str:
    amount, threshold = format_usd(policy.amount_microusd), format_usd(policy.threshold_microusd)
    match step:
        case Step.CHARGE | Step.ENOUGH:
            return f"Moorage charges the card {amount} whenever the credit falls below {threshold}."
        case Step.WAITING:
            return f"The last charge failed. Moorage tries again at {again_at:%Y-%m-%d %H:%M} UTC."
        case Step.PAUSED:
            return "Paused: the card was refused three times. Save another card, then switch it on again."
        case Step.CAPPED:
            cap = format_usd(policy.monthly_cap_microusd)
            return (
                f"Another {amount} would exceed the monthly cap of {cap}. Raise the cap, or top up yourself."
            )
        case Step.NO_CARD:
            return "There is no saved card. Save one first."
        case Step.SUSPENDED:
            return "The organization is suspended, so Moorage does not charge its card."


def failed_mail(
    amount_microusd: int, why: str, again_at: datetime | None, page_url: str | None, billing_url: str
) -> Mail:
    amount = format_usd(amount_microusd)
    subject = f"Your card could not be charged {amount}"
    if page_url is not None:
        subject = f"Your bank wants you to confirm {amount}"
        todo = f"Confirm the payment: {page_url}\n\n"
    else:
        todo = f"Save another card, or top up yourself: {billing_url}\n\n"
    then = (
        f"Moorage tries again at {again_at:%Y-%m-%d %H:%M} UTC.\n"
        if again_at is not None
        else (
            "It failed three times in a row, so automatic top-ups are paused. Switch them on again when "
            "the card works.\n"
        )
    )
    return subject, f"An automatic top-up of {amount} failed: {why}\n\n{todo}{then}"


def capped_mail(policy: Policy, billing_url: str) -> Mail:
    cap = format_usd(policy.monthly_cap_microusd)
    text = (
        f"Your credit is low, but another charge would exceed the monthly cap of {cap}. Raise the cap, or "
        f"top up yourself: {billing_url}\n"
    )
    return "Automatic top-ups have reached their monthly cap", text
