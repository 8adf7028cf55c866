"""Why a container is stopped although nobody of its project asked for it. Pure."""

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict

_SENTENCES = {
    Reason.STOPPED_NO_CREDIT: "Stopped because the credit ran out. Top up, then start it again.",
    Reason.SPENDING_LIMIT: (
        "Stopped because the monthly spending limit is reached. Raise it under Billing, or with "
        "`moor billing limits`, then start it again."
    ),
    Reason.SUSPENDED: "Stopped because the organization is suspended. Ask the operator of this installation.",
}


def stopped_because(reason: str | None) -> Verdict | None:
    """None when somebody asked for it."""
    return Verdict(Reason(reason), _SENTENCES[Reason(reason)]) if reason is not None else None
