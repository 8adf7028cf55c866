"""`moor scale`, `moor autoscaling` and `moor autoscaling replay`."""

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from moorage_cli.amounts import shown_price
from moorage_cli.client import Record
from moorage_cli.command import ContainerArgument, command
from moorage_cli.errors import UsageError
from moorage_cli.session import Session
from moorage_cli.times import shown_time, time_before

if TYPE_CHECKING:
    from moorage_cli.api.types import AutoscalingResources, ReplayRequest, ScaleRequest, ScalingPolicy


class ShowUnlessTold(TyperGroup):
    """`moor autoscaling NAME` is `moor autoscaling show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=ShowUnlessTold, no_args_is_help=True, help="How a container scales, and why.")

MinOption = Annotated[int | None, typer.Option("--min", min=1, help="The fewest replicas.")]
MaxOption = Annotated[int | None, typer.Option("--max", min=1, help="The most replicas.")]
TargetOption = Annotated[
    int | None,
    typer.Option("--target-concurrency", min=1, help="Requests that one replica should work on at a time."),
]
DelayOption = Annotated[
    int | None,
    typer.Option("--scale-down-delay", min=0, help="Seconds over which unneeded replicas are removed."),
]


def register(parent: typer.Typer) -> None:
    command(parent)(scale)


def scale(
    session: Session,
    container: ContainerArgument,
    least: MinOption = None,
    most: MaxOption = None,
    target_concurrency: TargetOption = None,
    scale_down_delay: DelayOption = None,
) -> None:
    """Change how a container scales, even while it runs."""
    sent = _policy(least, most, target_concurrency, scale_down_delay)
    if not sent:
        raise UsageError("Give at least one of --min, --max, --target-concurrency and --scale-down-delay.")
    found = session.container(container)
    scaled = session.api.scale_container(found["id"], cast("ScaleRequest", sent))
    if session.output.as_json:
        session.output.result(scaled)
        return
    if scaled["reason"] == "awaiting_approval":
        session.output.line(scaled["message"] or "")
        return
    resources = scaled["resources"]
    assert resources["mode"] == "autoscaling", "that is what scaling makes of it"
    session.output.line(f"{scaled['name']} scales {shown_policy(resources)}.")


@command(app, "show")
def autoscaling(
    session: Session,
    container: ContainerArgument,
    count: Annotated[int, typer.Option("-n", "--lines", min=1, help="The most decisions to show.")] = 20,
) -> None:
    """Show how many replicas a container has and why, oldest decision first."""
    found = session.container(container)
    shown = session.api.get_autoscaling(found["id"], limit=min(count, 200))
    if session.output.as_json:
        session.output.result(shown)
        return
    replicas = shown["replicas"]
    present = f"{replicas['ready']} ready, {replicas['coming']} coming, {replicas['desired']} asked for"
    pairs = [("replicas", present)]
    if shown["policy"] is None:
        pairs.append(
            ("scaling", "none: it always has one replica. Let it scale with `moor scale NAME --max N`")
        )
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
    session.output.table(columns, rows, "There are no decisions yet.")


def shown_policy(policy: "ScalingPolicy | AutoscalingResources") -> str:
    return (
        f"from {policy['min_replicas']} to {policy['max_replicas']} replicas, "
        f"{policy['target_concurrency']} requests at a time each, down over {policy['scale_down_delay_s']} s"
    )


@command(app, "replay")
def replay(
    session: Session,
    container: ContainerArgument,
    since: Annotated[str, typer.Option(help="How far back: 24h, or a time.")] = "24h",
    least: MinOption = None,
    most: MaxOption = None,
    target_concurrency: TargetOption = None,
    scale_down_delay: DelayOption = None,
    forecast: Annotated[
        bool, typer.Option("--forecast/--no-forecast", help="Ask for replicas before they are needed.")
    ] = True,
) -> None:
    """Show what other settings would have done with past demand, and what they would have cost."""
    found = session.container(container)
    begin = time_before(since, datetime.now(UTC), "--since").isoformat()
    wanted = _policy(least, most, target_concurrency, scale_down_delay) | {"since": begin}
    if not forecast:
        wanted["forecast"] = False
    replayed = session.api.replay_autoscaling(found["id"], cast("ReplayRequest", wanted))
    if session.output.as_json:
        session.output.result(replayed)
        return
    session.output.pairs(
        [
            ("time", f"{shown_time(replayed['since'])} to {shown_time(replayed['until'])}"),
            ("replayed with", shown_policy(replayed["policy"])),
            ("forecast", _shown_forecast(replayed.get("pattern"), forecast)),
        ]
    )
    session.output.line("")
    was, would = replayed["as_it_was"], replayed["replayed"]
    rows = [
        ["replica-hours", f"{was['replica_hours']:.2f}", f"{would['replica_hours']:.2f}"],
        ["hours bought", str(was["hours_bought"]), str(would["hours_bought"])],
        ["cost (USD)", shown_price(was["cost_microusd"]), shown_price(would["cost_microusd"])],
        ["time over target", f"{was['over_target_share']:.1%}", f"{would['over_target_share']:.1%}"],
        ["changes", str(was["changes"]), str(would["changes"])],
    ]
    session.output.table(("", "AS IT WAS", "REPLAYED"), rows, "")


def _shown_forecast(pattern: str | None, forecast: bool) -> str:
    if not forecast:
        return "left out"
    by = {"hour": "the hour", "day": "the day", "workday": "the kind of day", "week": "the week"}
    return (
        f"demand repeats by {by.get(pattern, pattern)}" if pattern else "none: its history shows no pattern"
    )


def _policy(
    least: int | None, most: int | None, target_concurrency: int | None, scale_down_delay: int | None
) -> Record:
    wanted = {
        "min_replicas": least,
        "max_replicas": most,
        "target_concurrency": target_concurrency,
        "scale_down_delay_s": scale_down_delay,
    }
    return {name: value for name, value in wanted.items() if value is not None}
