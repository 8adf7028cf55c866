"""`moor doctor host`: what is wrong with this machine, each in one sentence with the command that helps.

It needs neither the database nor a running Moorage, and looks at whatever answers: without an engine it says so and looks at
the rest.
"""

import asyncio
from dataclasses import asdict
from typing import Any

from moorage.engines.base import GpuDevice, GpuHandover, HostFinding
from moorage.engines.docker.connection import answers
from moorage.engines.docker.daemon import known_host
from moorage.engines.hosts.host import GpuHost, HostReader
from moorage.entrypoints.engine import docker_engine
from moorage.kit.errors import MoorageError
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings, load_settings
from moorage_cli.errors import CliError
from moorage_cli.session import Session

NO_ENGINE = HostFinding(
    "engine_missing", "No container engine answers on this machine.", "moor up", broken=True
)
_ANY = InstallationId("ins_none")
"""It looks at the engine and at nothing in it."""


def look_at_host(session: Session) -> None:
    try:
        host, findings = asyncio.run(examine(load_settings()))
    except MoorageError as exc:
        raise CliError(exc.message, code=exc.code) from exc
    if session.output.as_json:
        session.output.result(_json(host, findings))
    else:
        _show(session, host, findings)
    if any(finding.broken for finding in findings):
        raise CliError("Something on this machine does not work.", code="host_broken")


async def examine(settings: Settings) -> tuple[GpuHost, tuple[HostFinding, ...]]:
    docker_host = known_host(settings)
    if not await answers(docker_host):
        host = await HostReader(wanted=settings.gpu_handover, sandbox=settings.container_runtime).read({})
        return host, (NO_ENGINE, *host.findings)
    engine = docker_engine(settings, docker_host, _ANY)
    try:
        host = await engine.examine_host()
    finally:
        await engine.close()
    return host, host.findings


def _show(session: Session, host: GpuHost, findings: tuple[HostFinding, ...]) -> None:
    output = session.output
    if host.machine is not None:
        cuda = ".".join(map(str, host.machine.cuda))
        output.line(f"NVIDIA driver {host.machine.driver}, CUDA up to {cuda}.")
    for device in host.devices:
        state = device.unusable_because or "usable"
        output.line(f"{device.model}, {_memory(device)}, {device.device_id}: {state}")
    if host.handover.way is not GpuHandover.NONE:
        output.line(f"Handed over to containers: {host.handover.way} ({host.handover.reason}).")
    elif host.handover.reason is None:
        output.line("There is no GPU in this machine.")
    for finding in findings:
        output.line()
        output.line(finding.message, style="red" if finding.broken else "yellow")
        output.line(f"  {finding.command}")
    if not findings:
        output.line("This machine has no faults.", style="green")


def _memory(device: GpuDevice) -> str:
    if device.memory_bytes is None:
        return "memory unknown"
    return f"{device.memory_bytes / 2**30:.1f} GiB"


def _json(host: GpuHost, findings: tuple[HostFinding, ...]) -> dict[str, Any]:
    return {
        "gpu_handover": host.handover.way,
        "gpu_handover_reason": host.handover.reason,
        "driver": host.machine.driver if host.machine else None,
        "gpus": [asdict(device) for device in host.devices],
        "findings": [asdict(finding) for finding in findings],
    }
