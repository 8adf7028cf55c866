"""`moor capsules`: what was known about each replica that ended badly."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from moorage_cli.command import ContainerArgument, command
from moorage_cli.session import Session
from moorage_cli.times import shown_time

if TYPE_CHECKING:
    from moorage_cli.api.types import Capsule, Container

SHOWN_LINES = 10


def register(app: typer.Typer) -> None:
    command(app)(capsules)


def capsules(
    session: Session,
    container: ContainerArgument,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=50, help="The most to show.")] = 3,
) -> None:
    """Show why replicas of a container ended badly, newest first. The id of a deleted container works too."""
    # Its id is all that is left of a deleted container.
    by_id = container.startswith("ctr_") and len(container) == len("ctr_") + 20
    container_id = container if by_id else session.container(container)["id"]
    items = list(islice(session.api.list_capsules(container_id, limit=count), count))
    if session.output.as_json:
        session.output.result(items)
        return
    if not items:
        session.output.line("None of its replicas ended badly in the last days.")
    for capsule in items:
        session.output.pairs([(name, value) for name, value in _pairs(capsule) if value])
        for line in capsule["last_lines"][-SHOWN_LINES:]:
            # In the first column, where a container cannot print: what it did not.
            mark = "*" if line["stream"] == "moorage" else " "
            session.output.line(f"{mark} {shown_time(line['time'])} {line['text']}")
        session.output.line()


def newest(session: Session, container: "Container") -> str:
    """In one line, for `moor describe`; empty where there is none."""
    items = list(islice(session.api.list_capsules(container["id"], limit=1), 1))
    if not items:
        return ""
    capsule = items[0]
    when = shown_time(capsule["ended_at"] or capsule["written_at"])
    return f"{when} {capsule['reason']}: {capsule['message']} See `moor capsules {container['id']}`."


def _pairs(capsule: "Capsule") -> list[tuple[str, str]]:
    probes = [
        f"{run['count']} × {run['outcome']}{' ' + str(run['status']) if run['status'] else ''} ({run['by']})"
        for run in capsule["probes"]
    ]
    return [
        ("replica", capsule["replica_id"]),
        ("ended", shown_time(capsule["ended_at"]) if capsule["ended_at"] else ""),
        ("reason", capsule["reason"] or ""),
        ("message", capsule["message"] or ""),
        ("exit code", str(capsule["exit_code"]) if capsule["exit_code"] is not None else ""),
        ("health checks", ", ".join(probes)),
        ("generation", str(capsule["generation"])),
        ("digest", capsule["image_digest"] or ""),
        ("node", capsule["node"]),
        ("GPUs", ", ".join(capsule["gpu_device_ids"])),
    ]
