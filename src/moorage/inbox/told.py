"""What people are told of in the console, and who: what they did not do themselves and would want to know. Pure.

It is what mails are sent about, to whom these go: money to those who can pay, machines to those who lend them. All of it stands in the
activities and the audit log already (`webhooks/events.py` lists all that does), so nothing is stored for it but how far each has read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.kit.money import format_usd
from moorage.organizations.permissions import Permission, Role, allows

OF_ORGANIZATIONS: dict[str, Permission] = {
    "organization.suspend": Permission.ORGANIZATION_VIEW,
    "organization.resume": Permission.ORGANIZATION_VIEW,
    "invitation.accept": Permission.MEMBER_VIEW,
    "member.leave": Permission.MEMBER_VIEW,
    "webhook.disable": Permission.WEBHOOK_MANAGE,
    "billing.low_credit": Permission.BILLING_MANAGE,
    "billing.spending_alert": Permission.BILLING_MANAGE,
    "billing.top_up_failed": Permission.BILLING_MANAGE,
    "billing.transfer_confirm": Permission.BILLING_MANAGE,
    "billing.transfer_expire": Permission.BILLING_MANAGE,
    "billing.credit": Permission.BILLING_MANAGE,
    "billing.initial_credit": Permission.BILLING_MANAGE,
    "billing.payout_account": Permission.BILLING_MANAGE,
    "billing.payout_confirm": Permission.BILLING_MANAGE,
    "billing.payout_refuse": Permission.BILLING_MANAGE,
    "machine.silent": Permission.MACHINE_MANAGE,
    "machine.answered": Permission.MACHINE_MANAGE,
    "machine.verified": Permission.MACHINE_MANAGE,
    "machine.promoted": Permission.MACHINE_MANAGE,
    "machine.demoted": Permission.MACHINE_MANAGE,
    "machine.distrusted": Permission.MACHINE_MANAGE,
    "machine.ban": Permission.MACHINE_MANAGE,
    "machine.unban": Permission.MACHINE_MANAGE,
    "machine.void_earnings": Permission.MACHINE_MANAGE,
}
"""Audit records, and the permission without which nobody is told. Of activities (`containers.models.WORTH_TELLING`) everybody is told
who sees the project."""

_SENTENCES = {
    "container.state": "{container} failed",
    "container.stop": "{container} stops",
    "container.draft_failed": "The changes to {container} were taken back",
    "container.restart_failed": "The restart of {container} failed",
    "replica_limit.approved": "More replicas were approved for {project}",
    "replica_limit.refused": "More replicas were refused for {project}",
    "organization.suspend": "The organization is suspended",
    "organization.resume": "The organization is no longer suspended",
    "invitation.accept": "{email} joined",
    "member.leave": "{email} left",
    "webhook.disable": "A webhook was switched off",
    "billing.low_credit": "The credit ends within {within}",
    "billing.spending_alert": "{percent} % of the monthly limit of {scope} is spent",
    "billing.top_up_failed": "An automatic top-up of {amount} failed",
    "billing.transfer_confirm": "{received} arrived by bank transfer",
    "billing.transfer_expire": "A bank transfer of {amount} did not arrive",
    "billing.credit": "The operator gave {amount} of credit",
    "billing.initial_credit": "The operator gave {amount} of credit to begin with",
    "billing.payout_account": "The bank account for payouts was changed",
    "billing.payout_confirm": "A payout of {amount} was sent",
    "billing.payout_refuse": "A payout of {amount} was refused",
    "machine.silent": "{machine} does not answer",
    "machine.answered": "{machine} answers",
    "machine.verified": "{machine} proved what it has",
    "machine.promoted": "{machine} ended its probation",
    "machine.demoted": "{machine} is on probation again",
    "machine.distrusted": "{machine} was paused",
    "machine.ban": "The operator banned {machine}",
    "machine.unban": "The operator let {machine} come back",
    "machine.void_earnings": "The operator took back what was held of {machine}'s earnings",
}
TOLD = frozenset(_SENTENCES)


@dataclass(frozen=True)
class Names:
    """What the ids of an event are called; None where nothing has that id any more."""

    project: str | None = None
    container: str | None = None
    machine: str | None = None


def actions_for(role: Role) -> list[str]:
    return [action for action, permission in OF_ORGANIZATIONS.items() if allows(role, permission)]


def title(event: str, details: Mapping[str, Any], names: Names) -> str:
    """E.g. `whisper failed`. Without a full stop: it is read in a list."""
    return _SENTENCES[event].format(
        container=names.container or "A container",
        project=names.project or "a project",
        machine=names.machine or "A machine",
        scope=names.project or "the organization",
        email=details.get("email"),
        percent=details.get("percent"),
        within="an hour" if details.get("hours") == 1 else f"{details.get('hours')} hours",
        amount=_usd(details.get("amount_microusd")),
        received=_usd(details.get("received_microusd")),
    )


def text(event: str, message: str | None, details: Mapping[str, Any]) -> str | None:
    """Why, or what to do; None where the title says it all. A record of an earlier version may lack a detail."""
    amounts = {name: _usd(details.get(f"{name}_microusd")) for name in ("available", "spent", "limit")}
    match event:
        case "replica_limit.approved" if not message and "limit" in details:
            return f"Its containers may have {details['limit']} replicas each."
        case "billing.low_credit":
            return f"{amounts['available']} is left. Then containers finish their requests and stop."
        case "billing.spending_alert":
            ends = " No further hours are bought." if details.get("percent", 0) >= 100 else ""
            return f"{amounts['spent']} of {amounts['limit']}.{ends}"
        case "billing.payout_account":
            return f"It now ends in {details.get('account')}. If that was none of you, tell the operator at once."
        case "billing.payout_confirm" if details.get("reference"):
            return f"Reference {details['reference']}."
        case "webhook.disable" if details.get("reason"):
            return _sentence(f"because {details['reason']}")
        case _:
            return _sentence(message or details.get("because") or details.get("reason"))


def _usd(amount_microusd: int | None) -> str | None:
    return None if amount_microusd is None else format_usd(amount_microusd)


def _sentence(words: str | None) -> str | None:
    if not words:
        return None
    return f"{words[0].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"
