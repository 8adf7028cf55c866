"""What a container says while it wants more replicas than its project may have. Pure."""

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict


def awaiting(replicas: int, limit: int) -> Verdict:
    return Verdict(
        Reason.AWAITING_APPROVAL,
        f"Waits for the operator to allow {replicas} replicas; the project's limit is {limit}. "
        "It starts by itself once they are allowed.",
    )


def refused(replicas: int, limit: int, answer: str | None) -> Verdict:
    said = f" ({answer})" if answer else ""
    return Verdict(
        Reason.REPLICA_LIMIT_REFUSED,
        f"The operator refused {replicas} replicas{said}. Ask for {limit} or fewer, or start it to ask again.",
    )
