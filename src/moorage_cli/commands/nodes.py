"""`moor nodes`."""

from typing import TYPE_CHECKING

import typer

from moorage_cli.amounts import shown_bytes
from moorage_cli.command import command
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import NodeRead


def register(app: typer.Typer) -> None:
    command(app)(nodes)


def nodes(session: Session) -> None:
    """List the machines with what they have and what is free. For the operator."""
    items = list(session.api.list_nodes_with_room())
    if session.output.as_json:
        session.output.result(items)
        return
    rows = [
        [
            one["name"],
            f"silent for {one['seen_s_ago']:.0f} s" if one["state"] == "silent" else one["state"],
            one["infrastructure"],
            f"{one['free']['cpu_millis'] / 1000:g} of {_promisable_cpu(one):g}",
            f"{shown_bytes(one['free']['memory_bytes'])} of {shown_bytes(one['total']['memory_bytes'])}",
            f"{one['free']['gpus']} of {one['total']['gpus']}" if one["gpus"] else "-",
            _driver(one),
            one["gpu_handover"] if one["gpus"] else "-",
        ]
        for one in items
    ]
    columns = ("NAME", "STATE", "KIND", "VCPU FREE", "MEMORY FREE", "GPUS FREE", "DRIVER", "HAND-OVER")
    session.output.table(columns, rows, "No machine has reported yet.")
    for one in items:
        for gpu in one["gpus"]:
            use = gpu["unusable_because"] or ("in use" if gpu["in_use"] else "free")
            memory = "memory unknown" if gpu["memory_bytes"] is None else shown_bytes(gpu["memory_bytes"])
            session.output.line(f"{one['name']}: {gpu['model']}, {memory}, {gpu['device_id']}, {use}")

    for one in items:
        if one["message"] is not None:
            session.output.line(f"{one['name']}: {one['message']}")
        for finding in one["findings"]:
            style = "red" if finding["broken"] else "yellow"
            session.output.line(f"{one['name']}: {finding['message']}", style=style)
            if finding["command"]:
                session.output.line(f"  On {one['name']}: {finding['command']}")


def _promisable_cpu(node: "NodeRead") -> float:
    return node["total"]["cpu_millis"] * node["cpu_overcommit"] / 1000


def _driver(node: "NodeRead") -> str:
    if node["gpu_driver"] is None:
        return "-"
    return f"{node['gpu_driver']}, CUDA up to {node['cuda_version']}"
