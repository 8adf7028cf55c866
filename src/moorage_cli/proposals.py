"""Settings that a known model server wants: shown, asked about, never taken without a word."""

import sys
from typing import TYPE_CHECKING

import typer

from moorage_cli.client import Record
from moorage_cli.errors import CliError
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import PreflightRequest, Project, SettingsProposal

_FIELDS = {"api_path": "--api-path", "port": "--port", "health_path": "--health-path"}


def with_proposal(session: Session, project: "Project", body: Record, *, as_proposed: bool) -> Record:
    """The body with what is known of its image, where whoever deploys says yes. What they set themselves stays."""
    proposal = _proposal(session, project, body)
    wanted = _missing(body, proposal) if proposal is not None else {}
    if proposal is None or not wanted:
        return body
    session.output.note(proposal["message"])
    if body.get("start_command") and body.get("port") is None:
        session.output.note("With a start command of your own, say with --port where it listens.")
    if not as_proposed:
        asks = session.output.is_terminal and sys.stdin.isatty() and not session.output.as_json
        if not asks or not typer.confirm(f"Deploy it with {options_of(wanted)}?", default=True, err=True):
            session.output.note(f"Deploying it without. It is asked for with {options_of(wanted)}.")
            return body
    taken = {**body, **{name: value for name, value in wanted.items() if name != "health_path"}}
    if "health_path" in wanted:
        taken["health_check"] = {**body.get("health_check", {}), "path": wanted["health_path"]}
    return taken


def options_of(proposal: Record) -> str:
    return " ".join(f"{option} {proposal[name]}" for name, option in _FIELDS.items() if name in proposal)


def _proposal(session: Session, project: "Project", body: Record) -> "SettingsProposal | None":
    if body["registry"]["provider"] == "local" or "api_path" in body:
        return None
    image, provider = body["image"], body["registry"]["provider"]
    by_name = session.api.propose_settings(project["id"], image=image, provider=provider)["proposal"]
    if by_name is None:
        return None
    asked: PreflightRequest = {"image": image, "registry": body["registry"]}
    try:
        # The image itself knows best on which port it listens.
        found = session.api.preflight(project["id"], asked)
    except CliError:  # The deployment asks as well, and says what is wrong.
        return by_name
    return found["proposal"] or by_name


def _missing(body: Record, proposal: "SettingsProposal") -> Record:
    """What of it nobody has set. A start command of their own may well listen elsewhere."""
    own_command = bool(body.get("start_command"))
    set_already = {
        "api_path": "api_path" in body,
        "port": body.get("port") is not None or own_command,
        "health_path": bool((body.get("health_check") or {}).get("path")),
    }
    proposed = {name: value for name, value in proposal.items() if not set_already.get(name, True)}
    return {name: proposed[name] for name in set_already if name in proposed}
