"""Money in sentences. Pure."""

from collections.abc import Mapping
from typing import Any

from moorage.kit.money import format_usd
from moorage.ledger.accounts import INITIAL_CREDIT_MICROUSD
from moorage.ledger.rules import Forecast

_KINDS = {
    "initial_credit": "Initial credit",
    "credit": "Credit from the operator",
    "card_top_up": "Top-up by card",
    "bank_transfer": "Top-up by bank transfer",
    "refund": "Refund",
    "refund_failed": "Failed refund, given back",
    "dispute": "A card payment was disputed",
    "dispute_won": "A disputed card payment was upheld",
    "earning": "Earned by a machine",
    "earning_reversed": "Earned by a machine, and taken back",
    "earning_restored": "Earned by a machine, taken back and restored",
    "payout": "Sent to your bank account",
}


def forecast_sentence(forecast: Forecast) -> str:
    """E.g. `$3.20/h now, up to $12.80/h; runs out Sunday 2026-03-01 14:32 UTC.`"""
    if forecast.burn_now_microusd == 0:
        return "Nothing runs, so you spend nothing."
    now, most = format_usd(forecast.burn_now_microusd), format_usd(forecast.burn_maximum_microusd)
    burn = f"{now}/h now, up to {most}/h" if most != now else f"{now}/h"
    if forecast.runs_out_at is None:
        return f"{burn}; the credit lasts for thousands of years."
    return f"{burn}; runs out {forecast.runs_out_at:%A %Y-%m-%d %H:%M} UTC."


def initial_credit_sentence(needs: str, support_contact: str) -> str | None:
    """Why the credit to begin with was not given yet."""
    amount = format_usd(INITIAL_CREDIT_MICROUSD)
    return {
        "card": f"You get {amount} of credit once you save a card or pay with one. Each card counts once.",
        "approval": f"You get {amount} of credit once the operator approves it. Ask {support_contact}.",
        "another_mailbox": (
            f"You did not get {amount} of credit, because another spelling of your e-mail "
            "address already had it."
        ),
    }.get(needs)


def describe(kind: str, details: Mapping[str, Any]) -> str:
    if kind == "usage":
        return f"One hour of {details['instance_type']}, replica slot {details['slot']}"
    reason = details.get("reason")
    return f"{_KINDS[kind]}: {reason}" if reason else _KINDS[kind]
