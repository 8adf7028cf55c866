"""Mails about money that ends. Pure."""

from datetime import datetime

from moorage.kit.money import format_usd
from moorage.ledger.spending import Limit, next_month

Mail = tuple[str, str]
"""Subject and text."""


def stop_mail(container_name: str, limit: Limit | None) -> Mail:
    """`limit`: the one that stops it; None: the credit has run out."""
    ends = "It finishes the requests that are under way and stops within the hour that is paid.\n\n"
    if limit is None:
        text = (
            f"The credit does not cover another hour of the container {container_name}. {ends}"
            "It does not start again by itself: top up your credit, then start it.\n"
        )
        return f"{container_name} stops: the credit has run out", text
    text = (
        f"Another hour of the container {container_name} does not fit into the monthly spending limit of "
        f"{format_usd(limit.limit_microusd)}. {ends}"
        "It does not start again by itself: raise the limit or wait for the next month, then start it.\n"
    )
    return f"{container_name} stops: the monthly spending limit is reached", text


def limit_mail(scope_name: str, limit: Limit, percent: int, billing_url: str) -> Mail:
    spent, most = format_usd(limit.spent.bought_microusd), format_usd(limit.limit_microusd)
    if percent < 100:
        subject = f"{percent} % of the monthly spending limit of {scope_name} is spent"
        then = "At 100 % no further hours are bought: what runs then stops within the hours that are paid."
    else:
        subject = f"The monthly spending limit of {scope_name} is reached"
        then = "No further hours are bought: what runs stops within the hours that are paid."
    text = (
        f"{spent} of {most} is spent in {limit.month:%B %Y}. {then}\n\n"
        f"The month ends on {next_month(limit.month)} at 00:00 UTC. To raise the limit: {billing_url}, "
        "or `moor billing limits`.\n"
    )
    return subject, text


def low_credit_mail(
    organization_name: str, hours: int, available_microusd: int, runs_out_at: datetime, billing_url: str
) -> Mail:
    within = "24 hours" if hours == 24 else "an hour"
    text = (
        f"{format_usd(available_microusd)} of credit is left. With what runs now it ends on "
        f"{runs_out_at:%A %Y-%m-%d at %H:%M} UTC; then containers finish their requests and stop.\n\n"
        f"To top it up: {billing_url}, or `moor billing top-up`.\n"
    )
    return f"The credit of {organization_name} ends within {within}", text
