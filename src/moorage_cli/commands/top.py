"""`moor top`: what the containers of a project do just now."""

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from moorage_cli.client import Record, is_absent
from moorage_cli.command import command
from moorage_cli.errors import ApiError
from moorage_cli.output import state_text
from moorage_cli.session import Session
from moorage_cli.terminal_text import plain

if TYPE_CHECKING:
    from moorage_cli.api.types import GpuMetrics, Metrics, ReplicaMetrics

STEP_S = 10
BEHIND = timedelta(seconds=20)
"""Figures of the last moment are not all there yet."""
COLUMNS = (
    "NAME",
    "STATE",
    "REPLICAS",
    "REQUESTS/S",
    "P50 MS",
    "P95 MS",
    "P99 MS",
    "5XX",
    "IN FLIGHT",
    "QUEUED",
    "CPU",
    "MEMORY",
    "GPU",
)


def register(app: typer.Typer) -> None:
    command(app)(top)


def top(
    session: Session,
    every: Annotated[float, typer.Option(min=1, max=3600, help="Seconds between updates.")] = 5.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print once and end. This is the default in a pipe.")
    ] = False,
) -> None:
    """Show live figures of every container: replicas, requests, response times and what its replicas use."""
    if session.output.as_json:
        session.output.result(_look(session))
    elif once or not session.output.is_terminal:
        session.output.table(COLUMNS, [_row(one) for one in _look(session)], "There are no containers yet.")
    else:
        _watch(session, every)


def _watch(session: Session, every_s: float) -> None:
    with Live(console=session.output.console, auto_refresh=False, screen=True) as live:
        try:
            while True:
                live.update(_table(_look(session)), refresh=True)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return  # how watching is meant to end


def _look(session: Session) -> list[Record]:
    """The last ten seconds of which everything is known."""
    # The end of a step, so that exactly one is asked for.
    until_s = int((datetime.now(UTC) - BEHIND).timestamp()) // STEP_S * STEP_S
    until = datetime.fromtimestamp(until_s, UTC)
    since = until - timedelta(seconds=STEP_S)
    found = []
    for container in session.api.list_containers(session.project["id"]):
        try:
            metrics = session.api.get_metrics(
                container["id"], from_=since.isoformat(), to=until.isoformat(), step=STEP_S
            )
        except ApiError as exc:
            if is_absent(exc):
                continue  # deleted meanwhile
            raise
        found.append(
            {
                "id": container["id"],
                "name": container["name"],
                "state": container["state"],
                "replicas": container["replicas"],
                "metrics": _last(metrics),
                "usage": [_last_usage(replica) for replica in metrics["replicas"]],
            }
        )
    return found


def _last_usage(replica: "ReplicaMetrics") -> Record:
    gpus = [{"device_id": gpu["device_id"], **_last(gpu)} for gpu in replica["gpus"]]
    return {"replica_id": replica["replica_id"], **_last(replica), "gpus": gpus}


def _last(measured: "Metrics | ReplicaMetrics | GpuMetrics") -> Record:
    return {name: values[-1] for name, values in measured["series"].items()}


def _table(containers: list[Record]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if number < 2 else "right")
    for container in containers:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in _row(container)))
    return table


def _row(container: Record) -> list[str | Text]:
    figures, replicas = container["metrics"], container["replicas"]
    return [
        str(container["name"]),
        state_text(str(container["state"])),
        f"{replicas['ready']}/{replicas['desired']}",
        _number(figures.get("request_rate"), 1),
        *(_number(figures.get(f"response_time_{name}_ms"), 0) for name in ("p50", "p95", "p99")),
        _number(figures.get("responses_5xx"), 0),
        _number(figures.get("in_flight"), 1),
        _number(figures.get("queued"), 1),
        *_usage(container["usage"]),
    ]


def _usage(replicas: list[Record]) -> list[str]:
    """Processors and memory of all replicas together, and how busy their GPUs are in the mean."""
    gpus = [gpu for replica in replicas for gpu in replica["gpus"]]
    cpu_millis, memory_bytes = _known(replicas, "cpu_millis"), _known(replicas, "memory_bytes")
    busy = _known(gpus, "utilization_percent")
    return [
        f"{sum(cpu_millis) / 1000:.2f}" if cpu_millis else "-",
        f"{sum(memory_bytes) / 2**20:,.0f} MiB" if memory_bytes else "-",
        f"{sum(busy) / len(busy):.0f} %" if busy else "-",
    ]


def _known(records: list[Record], name: str) -> list[float]:
    return [value for record in records if (value := record.get(name)) is not None]


def _number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
