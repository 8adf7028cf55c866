"""`moor doctor`: what a container's network looks like from inside; `moor doctor host`: what is wrong with this machine.

The second needs Moorage's own code, because it looks at the machine itself, also when nothing of Moorage runs there: the
server's `moor` brings it (`look_at_host`).
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from moorage_cli.command import ContainerArgument, command
from moorage_cli.errors import CliError
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import AttemptFinding, Diagnosis

HOST = "host"
look_at_host: Callable[[Session], None] | None = None
"""Set where Moorage itself is installed."""
_LONGEST_S = 60.0
_PAUSE_S = 0.3
_OUTCOMES = {
    "connected": "answers",
    "refused": "refuses connections",
    "timed_out": "no answer",
    "unreachable": "unreachable",
}


def register(app: typer.Typer) -> None:
    command(app)(doctor)


def doctor(session: Session, container: ContainerArgument) -> None:
    """Test names and connections from inside a container's network. `moor doctor host` checks this machine instead:
    its driver, GPUs, engine and disk. For a container named host, give its id."""
    if container == HOST:
        if look_at_host is None:
            raise CliError(
                "`moor doctor host` works only where Moorage is installed. Run it on that machine.",
                code="not_here",
            )
        look_at_host(session)
        return
    found = session.container(container)
    diagnosis = session.api.diagnose_container(found["id"])
    session.output.note(f"Looking from inside {found['name']} …")
    deadline_s = time.monotonic() + _LONGEST_S
    while diagnosis["state"] == "asked":
        if time.monotonic() > deadline_s:
            raise CliError(
                f"No answer within {_LONGEST_S:g} s. Check with `moor status` that the controller runs.",
                code="doctor_timeout",
            )
        time.sleep(_PAUSE_S)
        diagnosis = session.api.get_diagnosis(found["id"])
    if diagnosis["state"] == "failed":
        raise CliError(diagnosis["message"] or "The network could not be tested.", code="doctor_failed")
    if session.output.as_json:
        session.output.result(diagnosis)
        return
    session.output.pairs(_findings(diagnosis))
    session.output.line()
    session.output.line(diagnosis["message"] or "")


def _findings(diagnosis: "Diagnosis") -> list[tuple[str, str]]:
    findings = diagnosis["findings"]
    assert findings is not None, "it is done"
    upstream = ", ".join(findings["upstream_resolvers"])
    listening = ", ".join(f"{one['address']}:{one['port']}" for one in findings["listening"])
    return [
        ("from", f"{diagnosis['replica_id']} on {diagnosis['node']}"),
        ("resolver", ", ".join(findings["resolvers"]) + (f", which asks {upstream}" if upstream else "")),
        *(
            (f"name {one['name']}", ", ".join(one["addresses"]) or one["failure"] or "")
            for one in findings["names"]
        ),
        *(("outbound", _attempt(one)) for one in findings["outbound"]),
        *(("kept from it", _attempt(one)) for one in findings["forbidden"]),
        ("listening", listening or "nothing"),
        ("egress", findings["egress"]),
    ]


def _attempt(attempt: "AttemptFinding") -> str:
    return f"{attempt['address']}:{attempt['port']}  {_OUTCOMES[attempt['outcome']]}"
