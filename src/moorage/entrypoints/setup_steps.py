"""What an installation needs before customers can rely on it, one step each: what is there, or what is missing, what follows
from that, and what to do. From facts alone. A step of which nothing is known says so; it is not done."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from moorage.engines.base import GpuHandover, NodeCapacity
from moorage.entrypoints.health_parts import BACKUP_OLD_AFTER, Certificate
from moorage.kit.settings import Settings
from moorage.telemetry.operator_repository import Mails

_PUBLIC_HTTPS = "https://"
_LOOPBACK = ("127.", "localhost", "[::1]")
_DOCTOR = "moor doctor host"


class StepState(StrEnum):
    MISSING = "missing"
    UNKNOWN = "unknown"
    """Nobody could look yet, or it is out of sight from here."""
    DONE = "done"


@dataclass(frozen=True)
class Step:
    name: str
    state: StepState
    message: str
    """Done: the fact that proves it."""
    consequence: str | None = None
    """What follows for the operator or for customers as long as it is missing."""
    command: str | None = None
    settings: tuple[str, ...] = ()
    """Which set it up, as variables of the environment."""


def mail_step(settings: Settings, mails: Mails, now: datetime) -> Step:
    if settings.smtp_host is None:
        return Step(
            "mail",
            StepState.MISSING,
            "No mail server is set up.",
            "Codes, invitations and alerts reach nobody. You have to read them in the outbox and pass them on.",
            settings=("MOORAGE_SMTP_HOST", "MOORAGE_MAIL_FROM"),
        )
    waiting = f"{mails.waiting} waiting"
    if mails.last_error is not None:
        return Step(
            "mail",
            StepState.MISSING,
            f"{settings.smtp_host} does not take mails: {mails.last_error}; {waiting}.",
            "Nobody can sign in with a code until it does. Moorage tries to send mails for three days.",
            settings=("MOORAGE_SMTP_HOST",),
        )
    if mails.last_sent_at is None:
        return Step("mail", StepState.UNKNOWN, f"{settings.smtp_host} is set up but has not sent a mail yet.")
    sent = f"the last mail went out {_ago(now, mails.last_sent_at)}"
    return Step("mail", StepState.DONE, f"{settings.smtp_host}; {sent}, {waiting}.")


def payments_step(settings: Settings) -> Step:
    accounts = [one for one in (settings.bank_details_local, settings.bank_details_international) if one]
    key = settings.stripe_secret_key.get_secret_value() if settings.stripe_secret_key is not None else None
    if key is None and not accounts:
        return Step(
            "payments",
            StepState.MISSING,
            "Neither cards nor bank transfers are set up.",
            "Customers cannot add credit. Only you can give it.",
            settings=("MOORAGE_STRIPE_SECRET_KEY", "MOORAGE_BANK_DETAILS_LOCAL"),
        )
    if key is not None and settings.stripe_webhook_secret is None:
        return Step(
            "payments",
            StepState.MISSING,
            "Cards are set up without the secret for the provider's events.",
            "Nobody can pay by card.",
            settings=("MOORAGE_STRIPE_WEBHOOK_SECRET",),
        )
    ways = []
    if key is not None:
        ways.append(f"Cards by Stripe{', test mode' if '_test_' in key else ''}")
    if accounts:
        ways.append(f"bank transfers to {_count(len(accounts), 'account')}")
    sentence = "; ".join(ways)
    return Step("payments", StepState.DONE, f"{sentence[0].upper()}{sentence[1:]}.")


def sign_in_step(settings: Settings) -> Step:
    providers = [
        name
        for name, client_id in (("Google", settings.google_client_id), ("GitHub", settings.github_client_id))
        if client_id is not None
    ]
    if providers:
        return Step("sign-in", StepState.DONE, f"With {' or '.join(providers)}, or a code by e-mail.")
    return Step(
        "sign-in",
        StepState.MISSING,
        "Neither Google nor GitHub is set up.",
        "People can sign in only with a code sent by e-mail.",
        settings=("MOORAGE_GOOGLE_CLIENT_ID", "MOORAGE_GITHUB_CLIENT_ID"),
    )


def backup_step(settings: Settings, last_at: datetime | None, now: datetime) -> Step:
    lost = "If this disk fails, balances, invoices and settings are lost"
    # Without a key to encrypt for, a backup holds the database alone.
    command = "moor backup" if settings.backup_recipient is not None else "moor backup FILE"
    if last_at is None:
        return Step("backup", StepState.MISSING, "There is no backup yet.", f"{lost}.", command=command)
    if now - last_at > BACKUP_OLD_AFTER:
        days = (now - last_at).days
        message = f"The last backup is {days} days old."
        return Step("backup", StepState.MISSING, message, f"{lost} as of then.", command=command)
    return Step("backup", StepState.DONE, f"The last backup was made {_ago(now, last_at)}.")


def tls_step(settings: Settings, certificates: Collection[Certificate], now: datetime) -> Step:
    """`certificates`: those that the settings name."""
    plain = [
        address
        for address, certificate in (
            (settings.api_listen, settings.served_api_certificate),
            (settings.gateway_listen, settings.served_gateway_certificate),
        )
        if certificate is None
    ]
    named = ("MOORAGE_ACME_EMAIL", "MOORAGE_API_CERTIFICATE", "MOORAGE_GATEWAY_CERTIFICATE")
    for one in certificates:
        if one.trouble is not None or one.is_first:
            because = f": {one.trouble}" if one.trouble is not None else " yet."
            message = f"The authority has not issued the certificate{because}"
            return Step(
                "TLS",
                StepState.MISSING,
                message,
                "Browsers and clients refuse to connect, now or when the last certificate expires.",
            )
        if one.not_after is None:
            return Step("TLS", StepState.MISSING, f"{one.path} cannot be read.", "Nothing can be reached.")
        if one.not_after <= now:
            message = f"The certificate in {one.path} has expired."
            return Step("TLS", StepState.MISSING, message, "Browsers and clients refuse to connect.")
        if one.ends_soon(now):
            message = f"The certificate in {one.path} expires on {one.not_after:%Y-%m-%d}."
            return Step("TLS", StepState.MISSING, message, "From then on clients refuse to connect.")
    if not plain:
        first = min(one.not_after for one in certificates if one.not_after is not None)
        return Step("TLS", StepState.DONE, f"Certificates are valid until {first:%Y-%m-%d}.")
    if settings.public_url is not None and settings.public_url.startswith(_PUBLIC_HTTPS):
        message = (
            f"TLS for {settings.public_url} ends at a proxy in front of Moorage, which Moorage cannot check."
        )
        return Step("TLS", StepState.UNKNOWN, message)
    open_to_others = [address for address in plain if not address.startswith(_LOOPBACK)]
    if not open_to_others:
        return Step(
            "TLS",
            StepState.MISSING,
            "There is no certificate, and only this machine can connect.",
            "Nobody else can reach the console or an endpoint.",
            settings=named,
        )
    return Step(
        "TLS",
        StepState.MISSING,
        f"{' and '.join(open_to_others)} speak plain HTTP.",
        "Anybody on the network path can read keys, prompts and answers.",
        settings=named,
    )


def isolation_step(settings: Settings, nodes: Sequence[NodeCapacity]) -> Step:
    if settings.isolation == "waived":
        return Step(
            "isolation",
            StepState.MISSING,
            "The isolation of containers is waived.",
            "Containers may reach each other and your network. Keep this setting only if all of them are yours.",
            settings=("MOORAGE_ISOLATION",),
        )
    if not nodes:
        return Step("isolation", StepState.UNKNOWN, "No machine has been described yet.")
    closed = [node for node in nodes if node.closed_because is not None and not node.clock_is_wrong]
    if closed:
        why = f"{closed[0].name} does not keep containers apart: {closed[0].closed_because}."
        consequence = f"No container starts on {_count(len(closed), 'machine')} until it does."
        return Step("isolation", StepState.MISSING, why, consequence, command=_DOCTOR)
    weak = [node for node in nodes if node.weaknesses]
    if weak:
        why = f"{weak[0].name}: {'; '.join(weak[0].weaknesses)}."
        consequence = f"Containers are isolated less well on {_count(len(weak), 'machine')}."
        return Step("isolation", StepState.MISSING, why, consequence, command=_DOCTOR)
    subject = "The machine keeps" if len(nodes) == 1 else f"All {len(nodes)} machines keep"
    return Step("isolation", StepState.DONE, f"{subject} containers apart.")


def gpus_step(nodes: Sequence[NodeCapacity]) -> Step:
    if not nodes:
        return Step("GPUs", StepState.UNKNOWN, "No machine has been described yet.")
    # With a reason and no way, there are traces of GPUs that nobody can use.
    unusable = [
        node
        for node in nodes
        if GpuHandover(node.gpu_handover) is GpuHandover.NONE and node.gpu_handover_reason is not None
    ]
    if unusable:
        node = unusable[0]
        message = f"{node.name} does not hand its GPUs over: {node.gpu_handover_reason}."
        return Step("GPUs", StepState.MISSING, message, "Nothing can use them.", command=_DOCTOR)
    broken = [(node, one) for node in nodes if node.gpus for one in node.findings if one.broken]
    if broken:
        node, finding = broken[0]
        message = f"{node.name}: {finding.message}"
        return Step(
            "GPUs", StepState.MISSING, message, "Containers there may not start.", command=finding.command
        )
    count = sum(len(node.gpus) for node in nodes)
    if count == 0:
        return Step(
            "GPUs", StepState.DONE, "No machine has a GPU, so only instance types without one are offered."
        )
    holders = sum(1 for node in nodes if node.gpus)
    return Step(
        "GPUs", StepState.DONE, f"{_count(count, 'GPU')} of {_count(holders, 'machine')} handed over."
    )


def machines_step(nodes: Sequence[NodeCapacity]) -> Step:
    there = [node for node in nodes if node.ready]
    if not nodes or not there:
        message = "No machine answers." if nodes else "There is no machine yet."
        return Step("machines", StepState.MISSING, message, "No container can start.", command=_DOCTOR)
    taking = sum(1 for node in there if node.takes_replicas and node.closed_because is None)
    if taking == 0:
        message = f"{_count(len(there), 'machine')}, and none takes new replicas."
        return Step("machines", StepState.MISSING, message, "Running containers continue, but none starts.")
    lent = sum(1 for node in there if node.owner is not None)
    yours = f"{len(there) - lent} of yours" + (f", {lent} of the community" if lent else "")
    return Step("machines", StepState.DONE, f"{yours}; {taking} of {len(nodes)} take replicas.")


def missing_first(steps: Sequence[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: list(StepState).index(step.state))


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _ago(now: datetime, then: datetime) -> str:
    minutes = max(0, int((now - then).total_seconds() // 60))
    if minutes < 1:
        return "just now"
    if minutes < 120:
        return f"{_count(minutes, 'minute')} ago"
    hours = minutes // 60
    return f"{hours} hours ago" if hours < 48 else f"{hours // 24} days ago"
