"""What a container says while it wants more replicas than its project may have. Pure."""

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict


def awaiting(replicas: int, limit: int) -> Verdict:
    return Verdict(
        Reason.AWAITING_APPROVAL,
        f"Waits for the operator to allow {replicas} replicas; the project's limit is {limit}. It starts "
        "once they are allowed.",
    )


def scaling_waits(replicas: int, limit: int) -> Verdict:
    return Verdict(
        Reason.AWAITING_APPROVAL,
        f"Scaling to {replicas} replicas waits for the operator to allow it; the project's limit is {limit}. "
        "Until then it scales as before.",
    )


def refused(replicas: int, limit: int, answer: str | None) -> Verdict:
    said = f" ({answer})" if answer else ""
    return Verdict(
        Reason.REPLICA_LIMIT_REFUSED,
        f"The operator refused {replicas} replicas{said}. Ask for {limit} or fewer, or start it to ask again.",
    )
