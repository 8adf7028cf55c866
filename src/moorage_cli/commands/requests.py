"""`moor explain` and `moor requests`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import ContainerArgument, command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session
from moorage_cli.times import shown_log_time, shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import LogLine, Request, RequestSummary

MAX_LINES = 200


def register(app: typer.Typer) -> None:
    command(app)(explain)
    command(app)(requests)


def explain(
    session: Session,
    request_id: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="The id in the answer's X-Request-ID header: req_…"),
    ],
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", help="Also show what its replica printed meanwhile, perhaps for other requests."
        ),
    ] = False,
) -> None:
    """Explain one request to an endpoint, step by step."""
    if not request_id.startswith("req_") or "/" in request_id:
        raise UsageError("A request's id looks like req_…; its answer has it in the header X-Request-ID.")
    found = session.api.get_request(request_id)
    printed = _printed(session, found) if lines else []
    if session.output.as_json:
        session.output.result({**found, "printed": printed} if lines else found)
        return
    session.output.pairs([(name, value) for name, value in _pairs(found) if value])
    session.output.line("")
    # Those of a held request say where its wait went; `--json` has them as `phases`.
    for line in found["explanation"]:
        session.output.line(line)
    if lines:
        session.output.line("")
        for at, who, text in _in_order(found, printed):
            session.output.line(f"{shown_log_time(at)} {who:<12} {text}")


def requests(
    session: Session,
    container: ContainerArgument,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=200, help="The most to show.")] = 20,
) -> None:
    """List a container's requests, newest first. All failed requests are listed, and some of the others."""
    container_id = session.container(container)["id"]
    items = list(
        islice(session.api.list_container_requests(container_id, limit=count, failed=failed or None), count)
    )
    if session.output.as_json:
        session.output.result(items)
        return
    session.output.table(
        ("REQUEST", "TIME", "STATUS", "TOOK", "ENDED", "ASKED FOR", "KEY"),
        [
            (
                one["request_id"],
                shown_time(one["started_at"]),
                str(one["status"] or "-"),
                f"{one['total_ms'] / 1000:.2f} s",
                one["ended"].replace("_", " "),
                _asked_for(one) or "-",
                one["key_name"] or one["key_id"],
            )
            for one in items
        ],
        "None of its requests has a record yet. One appears a few seconds after a request ends.",
    )


def _pairs(found: "Request") -> list[tuple[str, str]]:
    container, key, replica, cost = found["container"], found["key"], found["replica"], found["cost"]
    retries = found["retries"]
    version = f", version {replica['version']} on {replica['node']}" if replica and replica["version"] else ""
    share = (
        f"${cost['share_microusd'] / 1e6:.6f}, of {cost['requests']:,} requests in its hour" if cost else ""
    )
    return [
        ("request", found["request_id"]),
        ("asked for", _asked_for(found)),
        (
            "container",
            f"{container['name']} ({container['id']})" if container else found["container_id"] or "",
        ),
        ("key", key["name"] or key["id"]),
        ("replica", replica["id"] + version if replica else ""),
        ("retries", str(retries) if retries else ""),
        ("its share", share),
    ]


def _asked_for(request: "Request | RequestSummary") -> str:
    return " ".join(word for word in (request["method"], request["path"]) if word)


def _printed(session: Session, found: "Request") -> "list[LogLine]":
    where = found["lines"]
    if where is None:
        return []
    newest_first = session.api.list_logs_projects(
        found["project_id"],
        container=found["container_id"],
        instance=where["instance_id"],
        from_=where["from_time"],
        to=where["to_time"],
        limit=MAX_LINES,
    )
    return list(islice(newest_first, MAX_LINES))[::-1]


def _in_order(found: "Request", printed: "list[LogLine]") -> list[tuple[str, str, str]]:
    """What Moorage did, between what the replica printed."""
    ours: list[tuple[str, str, str]] = [
        (moment["at"], moment["teller"], moment["what"]) for moment in found["moments"]
    ]
    theirs = [(line["time"], line["instance_id"][:10], line["text"]) for line in printed]
    return sorted([*ours, *theirs], key=lambda one: shown_log_time(one[0]))
