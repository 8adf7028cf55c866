"""What keeps a machine's GPUs from its containers, or may take them away again. Pure; part of `doctor.py`."""

from collections.abc import Iterator

from moorage.engines.base import GpuHandover, HostFinding
from moorage.engines.hosts.facts import NVIDIA_RUNTIME, HostFacts
from moorage.engines.hosts.findings import broken, risky
from moorage.engines.hosts.gpu_faults import gpus_of, named
from moorage.engines.hosts.handover import (
    INSTALL_TOOLKIT,
    MAKE_NODES,
    Handover,
    cdi_disagreement,
    runtime_obstacle,
)

_LINK_DEVICES = "nvidia-ctk system create-dev-char-symlinks --create-all"


def handover_faults(facts: HostFacts, handover: Handover) -> Iterator[HostFinding]:
    if not facts.engine.answers:
        return  # Whoever asked says so.
    yield from _toolkit(facts)
    if handover.way is not GpuHandover.RUNTIME:
        # NVIDIA's runtime makes the nodes itself when the first container starts, and needs no specification.
        yield from _nodes(facts)
        yield from _specification(facts, handover)
    if handover.obstacle is not None:
        yield broken(
            handover.obstacle.code,
            f"The GPU cannot be handed over to containers: {handover.reason}.",
            handover.obstacle.command,
        )
    if handover.way is GpuHandover.DIRECT:
        yield from _without_number(facts)
    if handover.way in (GpuHandover.RUNTIME, GpuHandover.DIRECT):
        yield from _vanishing(facts)


def _toolkit(facts: HostFacts) -> Iterator[HostFinding]:
    if NVIDIA_RUNTIME in facts.engine.runtimes and (obstacle := runtime_obstacle(facts)) is not None:
        yield broken(
            "toolkit_broken",
            f"NVIDIA's container toolkit is set up, but {obstacle.reason}.",
            obstacle.command,
        )


def _nodes(facts: HostFacts) -> Iterator[HostFinding]:
    if not facts.engine.is_local or (facts.files.module_version is None and not gpus_of(facts)):
        return
    numbers = (gpu.minor for gpu in gpus_of(facts))
    minors = [minor for minor in numbers if minor is not None and not facts.files.has_node(minor)]
    missing = [*facts.files.missing_control_nodes, *(f"nvidia{minor}" for minor in minors)]
    if missing:
        names = ", ".join(f"/dev/{name}" for name in missing)
        yield broken(
            "device_nodes_missing",
            f"The NVIDIA driver is loaded, but {names} {'is' if len(missing) == 1 else 'are'} missing.",
            # The node of the driver itself is made along with a GPU's.
            MAKE_NODES + "".join(f" -c {minor}" for minor in minors or [0]),
        )


def _specification(facts: HostFacts, handover: Handover) -> Iterator[HostFinding]:
    obstacle = cdi_disagreement(gpus_of(facts), facts) if facts.engine.has_cdi else None
    if obstacle is not None:
        say = broken if handover.way is GpuHandover.NONE else risky
        yield say(obstacle.code, f"CDI is not used for GPUs, because {obstacle.reason}.", obstacle.command)


def _without_number(facts: HostFacts) -> Iterator[HostFinding]:
    if untold := [gpu for gpu in gpus_of(facts) if gpu.minor is None]:
        yield broken(
            "device_node_unknown",
            f"{', '.join(map(named, untold))} cannot be handed over: the driver does not name its device node.",
            INSTALL_TOOLKIT,
        )


def _vanishing(facts: HostFacts) -> Iterator[HostFinding]:
    """With systemd as the keeper of control groups, each reload of it works out anew which devices a container may use,
    and finds a device by its link in /dev/char."""
    if facts.engine.cgroup_driver != "systemd":
        return
    unlinked = sorted(
        name for name, number in facts.device_numbers.items() if number not in facts.device_links
    )
    if unlinked:
        links = " && ".join(f"ln -sf ../{name} /dev/char/{facts.device_numbers[name]}" for name in unlinked)
        yield risky(
            "gpu_vanishes_on_reload",
            f"Containers lose their GPU at the next `systemctl daemon-reload`: /dev/char has no link to "
            f"/dev/{unlinked[0]}.",
            _LINK_DEVICES if "nvidia-ctk" in facts.toolkit else f"mkdir -p /dev/char && {links}",
        )
