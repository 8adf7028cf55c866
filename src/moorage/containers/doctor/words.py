"""From what was found inside a replica's network to what a person is told. Pure."""

from collections.abc import Sequence

from moorage.containers.verdict import first_few
from moorage.engines.base import ListeningSocket
from moorage.engines.diagnosis import Attempt, NetworkDiagnosis, Outcome

EGRESS = (
    "Every public address is allowed; private, link-local and this installation's own addresses "
    "are refused on purpose."
)
NO_REPLICA = "No replica runs, so there is no network to test. Start the container and ask again."
_OUTCOMES = {
    Outcome.CONNECTED: "answers",
    Outcome.REFUSED: "refuses connections",
    Outcome.TIMED_OUT: "does not answer",
    Outcome.UNREACHABLE: "cannot be reached",
}


def summary(found: NetworkDiagnosis, listening: Sequence[ListeningSocket], port: int | None) -> str:
    return " ".join(
        sentence
        for sentence in (_names(found), _outbound(found), _open_doors(found), _listening(listening, port))
        if sentence
    )


def _names(found: NetworkDiagnosis) -> str:
    failed = [answer for answer in found.names if answer.failure is not None]
    if not failed:
        return "Names resolve."
    upstream = f" (which asks {', '.join(found.upstream_resolvers)})" if found.upstream_resolvers else ""
    return " ".join(f"{one.name} does not resolve: {one.failure}{upstream}." for one in failed)


def _outbound(found: NetworkDiagnosis) -> str:
    said = " ".join(f"{_destination(one)} {_OUTCOMES[one.outcome]}." for one in found.outbound)
    if any(one.outcome is Outcome.CONNECTED for one in found.outbound):
        return said
    return f"{said} Public addresses are allowed, so the machine itself cannot reach the internet. Ask the operator."


def _open_doors(found: NetworkDiagnosis) -> str:
    """Nobody may answer there. A refusal is an answer too: the packet arrived."""
    answered = [one for one in found.forbidden if one.outcome in (Outcome.CONNECTED, Outcome.REFUSED)]
    if not answered:
        return ""
    reached = ", ".join(_destination(one) for one in answered)
    return f"{reached} can be reached but must not be. Tell the operator."


def _listening(listening: Sequence[ListeningSocket], port: int | None) -> str:
    where = first_few([f"{one.address} port {one.port}" for one in listening])
    if not listening:
        return f"Nothing listens{f' on port {port}' if port else ''}."
    if port is not None and port not in {one.port for one in listening}:
        return f"Listening: {where}, but nothing on port {port}."
    return f"Listening: {where}."


def _destination(attempt: Attempt) -> str:
    return f"{attempt.address}:{attempt.port}"
