"""Mails about money that ends. Pure."""

from datetime import datetime

from moorage.kit.money import format_usd
from moorage.ledger.spending import Limit, next_month

Mail = tuple[str, str]
"""Subject and text."""


def stop_mail(container_name: str, limit: Limit | None) -> Mail:
    """`limit`: the one that stops it; None: the credit has run out."""
    ends = "It finishes its requests and stops before the paid hour ends.\n\n"
    if limit is None:
        text = (
            f"Your credit does not cover another hour of the container {container_name}. {ends}It does not "
            "restart by itself. Top up your credit, then start it.\n"
        )
        return f"{container_name} stops: the credit has run out", text
    text = (
        f"Another hour of the container {container_name} would exceed the monthly spending limit of "
        f"{format_usd(limit.limit_microusd)}. {ends}It does not restart by itself. Raise the limit or wait "
        "for the next month, then start it.\n"
    )
    return f"{container_name} stops: the monthly spending limit is reached", text


def limit_mail(scope_name: str, limit: Limit, percent: int, billing_url: str) -> Mail:
    spent, most = format_usd(limit.spent.bought_microusd), format_usd(limit.limit_microusd)
    if percent < 100:
        subject = f"{percent} % of the monthly spending limit of {scope_name} is spent"
        then = "At 100 % Moorage buys no more hours, and containers stop before their paid hours end."
    else:
        subject = f"The monthly spending limit of {scope_name} is reached"
        then = "Moorage buys no more hours, and containers stop before their paid hours end."
    text = (
        f"{spent} of {most} has been spent in {limit.month:%B %Y}. {then}\n\n"
        f"The month ends on {next_month(limit.month)} at 00:00 UTC. Raise the limit at {billing_url} or with "
        "`moor billing limits`.\n"
    )
    return subject, text


def low_credit_mail(
    organization_name: str, hours: int, available_microusd: int, runs_out_at: datetime, billing_url: str
) -> Mail:
    within = "24 hours" if hours == 24 else "an hour"
    text = (
        f"{format_usd(available_microusd)} of credit is left. At the current rate it runs out on "
        f"{runs_out_at:%A %Y-%m-%d at %H:%M} UTC. Containers then finish their requests and stop.\n\n"
        f"Top up at {billing_url} or with `moor billing top-up`.\n"
    )
    return f"The credit of {organization_name} runs out within {within}", text
