"""`moor list`, `describe`, `start`, `stop`, `restart`, `delete`, `replicas`, `events`."""

import shlex
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from moorage_cli.amounts import shown_price
from moorage_cli.command import ContainerArgument, command
from moorage_cli.commands.capsules import newest
from moorage_cli.commands.outcome import failure, report_deployment, wait_for_deployment, waiting
from moorage_cli.errors import UsageError
from moorage_cli.output import state_text
from moorage_cli.progress import doing
from moorage_cli.session import Session
from moorage_cli.times import parse_time, shown_age, shown_time
from moorage_cli.waiting import wait_until_gone, wait_until_stopped

if TYPE_CHECKING:
    from moorage_cli.api.types import Container, Replica, RestartRequest

NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Return at once instead of waiting until it is done.")
]


def register(app: typer.Typer) -> None:
    command(app, "list")(list_containers)
    for function in (describe, start, stop, restart, delete, replicas, events):
        command(app)(function)


def list_containers(session: Session) -> None:
    """List the project's containers."""
    containers = list(session.api.list_containers(session.project["id"]))
    if session.output.as_json:
        session.output.result(containers)
        return
    now = datetime.now(UTC)
    rows: list[list[str | Text]] = [
        [
            one["name"],
            _state_and_reason(one),
            f"{one['replicas']['ready']}/{one['replicas']['desired']}",
            one["resources"]["instance_type"],
            shown_age(parse_time(one["created_at"]), now),
            one["endpoint_url"],
        ]
        for one in containers
    ]
    columns = ("NAME", "STATE", "READY", "INSTANCE TYPE", "AGE", "ENDPOINT")
    empty = "There are no containers in this project. Deploy one: moor deploy --image REF"
    session.output.table(columns, rows, empty)


def describe(session: Session, container: ContainerArgument) -> None:
    """Show a container: state, endpoint and settings."""
    found = session.container(container)
    if session.output.as_json:
        session.output.result(found)
        return
    pairs = [*_description(found), ("sleeps", _saved(session, found)), ("last crash", newest(session, found))]
    session.output.pairs([(name, value) for name, value in pairs if value])


def start(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Start a stopped or failed container."""
    _deploy_again(session, container, "start", no_wait)


def restart(
    session: Session,
    container: ContainerArgument,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="Use other machines than the present or last ones.")
    ] = False,
    no_wait: NoWaitOption = False,
) -> None:
    """Replace a container's replicas with new ones, one at a time."""
    _deploy_again(
        session, container, "restart", no_wait, {"avoid_current_nodes": True} if elsewhere else None
    )


def stop(session: Session, container: ContainerArgument, no_wait: NoWaitOption = False) -> None:
    """Stop a container. Requests in flight may finish."""
    found = session.container(container)
    answer = session.client.request("POST", f"/containers/{found['id']}/stop")
    stopped: Container = answer.body
    if not no_wait and stopped["state"] == "STOPPING":
        waited = waiting(session, stopped, wait_until_stopped, "It still stops.")
        assert waited is not None, "wait_until_stopped gives the container back"
        if waited["state"] not in ("STOPPED", "FAILED"):
            raise failure(waited)
        stopped = waited
    if session.output.as_json:
        session.output.result(stopped)
    else:
        already = " already" if answer.status == 200 else ""
        session.output.line(f"{stopped['name']} is {stopped['state']}{already}.")


def delete(
    session: Session,
    container: ContainerArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    no_wait: NoWaitOption = False,
) -> None:
    """Delete a container for good. Its logs stay until they expire."""
    found = session.container(container)
    if not yes:
        _confirm(found["name"])
    deleted = session.api.delete_container(found["id"])
    if not no_wait:
        waiting(session, deleted, wait_until_gone, "It is still being deleted.")
    session.output.answer(
        {"id": found["id"], "name": found["name"], "deleted": not no_wait},
        f"{found['name']} is {'being deleted' if no_wait else 'deleted'}.",
    )


def replicas(session: Session, container: ContainerArgument) -> None:
    """List a container's replicas."""
    found = session.container(container)
    items = list(session.api.list_replicas(found["id"]))
    if session.output.as_json:
        session.output.result(items)
        return
    now = datetime.now(UTC)
    rows = [
        [
            one["id"],
            one["state"],
            str(one["slot"]),
            str(one["generation"]),
            _machine(one),
            shown_age(parse_time(one["created_at"]), now),
            _why(one),
        ]
        for one in items
    ]
    columns = ("REPLICA", "STATE", "SLOT", "GENERATION", "NODE", "AGE", "WHY")
    session.output.table(columns, rows, f"{found['name']} has no replicas.")


def _machine(replica: "Replica") -> str:
    lent = replica.get("community")
    if not lent:
        return replica["node"]
    return f"{replica['node']} (community, {lent['tier']}, {lent['reliability']:.3f})"


def events(
    session: Session,
    container: ContainerArgument,
    count: Annotated[int, typer.Option("-n", "--lines", min=1, help="The most to show.")] = 50,
) -> None:
    """Show what happened to a container, oldest first."""
    found = session.container(container)
    pages = session.api.list_activity(found["id"], limit=min(count, 200))
    items = list(islice(pages, count))[::-1]
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [shown_time(one["at"]), one["kind"], one["actor"], one["reason"] or "", one["message"] or ""]
        for one in items
    ]
    session.output.table(("TIME", "EVENT", "WHO", "REASON", "MESSAGE"), rows, "Nothing has happened yet.")


def shown_fix(container: "Container") -> str:
    fix = container["fix"]
    if not fix:
        return ""
    name = shlex.quote(container["name"])
    return f"{fix['field']} from {fix['from']} to {fix['to']}; accept it with `moor fix {name}`"


def _deploy_again(
    session: Session, reference: str, verb: str, no_wait: bool, body: "RestartRequest | None" = None
) -> None:
    found = session.container(reference)
    answer = session.client.request("POST", f"/containers/{found['id']}/{verb}", body=cast(Any, body))
    container: Container = answer.body
    if not no_wait:
        report_deployment(session, wait_for_deployment(session, container))
    elif session.output.as_json:
        session.output.result(container)
    else:
        already = " already" if answer.status == 200 else ""
        session.output.line(f"{container['name']} is {container['state']}{already}.")


def _confirm(name: str) -> None:
    try:
        typed = typer.prompt(f"This cannot be undone. Type the name ({name}) to delete it", err=True)
    except typer.Abort:
        typer.echo(err=True)  # the question's line is still open
        raise UsageError("Nothing was deleted.", hint="Add --yes to delete it without being asked.") from None
    if typed.strip() != name:
        raise UsageError(f"That is not its name, so nothing was deleted. Type {name}.")


def _state_and_reason(container: "Container") -> Text:
    shown = _state(container)
    if container["state"] != "RUNNING" and container.get("reason"):
        shown.append(f" ({container['reason']})", style="not bold dim")
    return shown


def _state(container: "Container") -> Text:
    shown = state_text(container["state"])
    if container.get("asleep"):
        shown.append(" (wakes)" if container["woken_at"] else " (asleep)", style="not bold dim")
    return shown


def _saved(session: Session, container: "Container") -> str:
    if not container.get("sleep_after_s"):
        return ""
    savings = session.api.get_savings(container["id"])
    saved = shown_price(savings["total_microusd"])
    return f"after {container['sleep_after_s']} s without a request; {saved} USD saved in 90 days"


def _why(replica: "Replica") -> str:
    exit_code = f"exit code {replica['exit_code']}" if replica.get("exit_code") is not None else None
    return ": ".join(part for part in (replica.get("reason"), replica.get("message") or exit_code) if part)


def _description(container: "Container") -> list[tuple[str, str | Text]]:
    resources, health, registry = container["resources"], container["health_check"], container["registry"]
    cache = container["cache"]
    scaling = ""
    if resources["mode"] == "autoscaling":
        scaling = (
            f"{resources['min_replicas']} to {resources['max_replicas']} replicas, "
            f"{resources['target_concurrency']} requests at a time each"
        )
    return [
        ("name", container["name"]),
        ("id", container["id"]),
        ("state", _state(container)),
        ("since", shown_time(container["state_since"])),
        ("reason", container["reason"] or ""),
        ("message", container["message"] or ""),
        (
            "next replica" if container["state"] == "RUNNING" else "progress",
            doing(container["progress"]) if container["progress"] else "",
        ),
        ("fix", shown_fix(container)),
        ("endpoint", container["endpoint_url"]),
        ("replicas", f"{container['replicas']['ready']} ready of {container['replicas']['desired']}"),
        ("instance type", resources["instance_type"]),
        ("autoscaling", scaling),
        ("price", f"{_shown_prices(container)} USD per replica and hour"),
        ("image", container["image"]),
        ("digest", container["image_digest"] or ""),
        ("registry", " as ".join(part for part in (registry["provider"], registry["username"]) if part)),
        ("command", container["start_command"] or ""),
        ("port", str(container["port"] or "")),
        (
            "api path",
            f"{container['api_path']}, reached at /api/v1" if container["api_path"] == "/v1" else "",
        ),
        ("health check", f"{health['path'] or 'port accepts a connection'}, within {health['timeout_s']} s"),
        ("secrets", ", ".join(container["env"])),
        ("environment", ", ".join(f"{name}={value}" for name, value in container["plain_env"].items())),
        ("cache", f"{cache['size_gib']} GiB on each machine" if cache else ""),
        ("infrastructure", container["infrastructure"]),
        ("category", container["category"] or ""),
        ("project", container["project_id"]),
        ("generation", str(container["generation"])),
        ("created", shown_time(container["created_at"])),
    ]


def _shown_prices(container: "Container") -> str:
    """A range where it takes machines of either kind; the dearer one is held."""
    most = container["price_per_hour_microusd"]
    least = container.get("least_price_per_hour_microusd", most)  # an older API says none
    return shown_price(most) if least == most else f"{shown_price(least)} to {shown_price(most)}"
