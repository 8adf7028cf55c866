"""`moor scale` and `moor autoscaling`."""

from itertools import islice
from typing import Annotated

import typer

from moorage_cli.client import Record
from moorage_cli.command import ContainerArgument, command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session
from moorage_cli.times import shown_time


def register(parent: typer.Typer) -> None:
    command(parent)(scale)
    command(parent)(autoscaling)


def scale(
    session: Session,
    container: ContainerArgument,
    least: Annotated[int | None, typer.Option("--min", min=1, help="Least replicas.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=1, help="Most replicas.")] = None,
    target_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests that one replica should have at a time.")
    ] = None,
    scale_down_delay: Annotated[
        int | None, typer.Option(min=0, help="Seconds over which unneeded replicas go.")
    ] = None,
) -> None:
    """Change how a container scales, also while it runs."""
    wanted = {
        "min_replicas": least,
        "max_replicas": most,
        "target_concurrency": target_concurrency,
        "scale_down_delay_s": scale_down_delay,
    }
    sent = {name: value for name, value in wanted.items() if value is not None}
    if not sent:
        raise UsageError("Say what to change: --min, --max, --target-concurrency or --scale-down-delay.")
    found = session.container(container)
    scaled: Record = session.client.request("POST", f"/containers/{found['id']}/scale", body=sent).body
    if session.output.as_json:
        session.output.result(scaled)
        return
    session.output.line(f"{scaled['name']} scales {shown_policy(scaled['resources'])}.")


def autoscaling(
    session: Session,
    container: ContainerArgument,
    count: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many decisions, at most.")] = 20,
) -> None:
    """Show how many replicas a container has and why, oldest decision first."""
    found = session.container(container)
    path = f"/containers/{found['id']}/autoscaling"
    shown = session.client.get(path, {"limit": min(count, 200)})
    if session.output.as_json:
        session.output.result(shown)
        return
    replicas = shown["replicas"]
    present = f"{replicas['ready']} ready, {replicas['coming']} coming, {replicas['desired']} asked for"
    pairs = [("replicas", present)]
    if shown["policy"] is None:
        pairs.append(("scaling", "none: it has one replica. Let it scale with `moor scale NAME --max N`"))
    else:
        pairs.append(("scaling", shown_policy(shown["policy"])))
    if replicas["startup_s"] is not None:
        pairs.append(("start-up", f"{replicas['startup_s']:.1f} s"))
    session.output.pairs(pairs)
    session.output.line("")
    items = list(islice(shown["items"], count))[::-1]
    rows = [
        [
            shown_time(one["at"]),
            str(one["replicas"]),
            str(one["wanted"]),
            one["limited_by"] or "",
            one["reason"],
        ]
        for one in items
    ]
    columns = ("SINCE", "REPLICAS", "WANTED", "LIMIT", "WHY")
    session.output.table(columns, rows, "Nothing was decided yet.")


def shown_policy(policy: Record) -> str:
    return (
        f"from {policy['min_replicas']} to {policy['max_replicas']} replicas, "
        f"{policy['target_concurrency']} requests at a time each, down over {policy['scale_down_delay_s']} s"
    )
