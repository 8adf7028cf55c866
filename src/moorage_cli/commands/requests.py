"""`moor explain` and `moor requests`."""

from typing import Annotated

import typer

from moorage_cli.client import Record
from moorage_cli.command import ContainerArgument, command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session, path_part
from moorage_cli.times import shown_log_time, shown_time

MAX_LINES = 200


def register(app: typer.Typer) -> None:
    command(app)(explain)
    command(app)(requests)


def explain(
    session: Session,
    request_id: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="A request's id, from its answer's X-Request-ID: req_…"),
    ],
    lines: Annotated[
        bool, typer.Option("--lines", help="Also what its replica printed meanwhile, perhaps for others too.")
    ] = False,
) -> None:
    """Say what happened to one request to an endpoint, step by step."""
    if not request_id.startswith("req_") or "/" in request_id:
        raise UsageError("A request's id looks like req_…; its answer has it in the header X-Request-ID.")
    found = session.client.get(f"/requests/{request_id}")
    printed = _printed(session, found) if lines else []
    if session.output.as_json:
        session.output.result(found | ({"printed": printed} if lines else {}))
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
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=200, help="How many, at most.")] = 20,
) -> None:
    """List a container's requests, newest first: all that failed, and of many others some."""
    path = f"/containers/{path_part(session.container(container)['id'])}/requests"
    items = session.client.get(path, {"limit": count, "failed": "true" if failed else None})["items"]
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
        "No request of it has a record. One appears a few seconds after a request has ended.",
    )


def _pairs(found: Record) -> list[tuple[str, str]]:
    container, key, replica, cost = (found[name] for name in ("container", "key", "replica", "cost"))
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


def _asked_for(request: Record) -> str:
    return " ".join(word for word in (request["method"], request["path"]) if word)


def _printed(session: Session, found: Record) -> list[Record]:
    where = found["lines"]
    if where is None:
        return []
    query = {
        "container": found["container_id"],
        "instance": where["instance_id"],
        "from": where["from_time"],
        "to": where["to_time"],
        "limit": MAX_LINES,
    }
    newest_first: list[Record] = session.client.get(f"/projects/{found['project_id']}/logs", query)["items"]
    return newest_first[::-1]


def _in_order(found: Record, printed: list[Record]) -> list[tuple[str, str, str]]:
    """What Moorage did, between what the replica printed."""
    ours = [(moment["at"], moment["teller"], moment["what"]) for moment in found["moments"]]
    theirs = [(line["time"], line["instance_id"][:10], line["text"]) for line in printed]
    return sorted([*ours, *theirs], key=lambda one: shown_log_time(one[0]))
