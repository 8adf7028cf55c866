"""One machine's GPUs as its engine needs them: who is there, how each gets into a container, what is wrong."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from moorage.engines.base import GpuDevice, GpuHandover, HostFinding
from moorage.engines.hosts.doctor import diagnose
from moorage.engines.hosts.driver_files import DriverFiles
from moorage.engines.hosts.facts import HostFacts, engine_facts, read_facts
from moorage.engines.hosts.gpu_faults import unusable_because
from moorage.engines.hosts.handover import AUTOMATIC, Handover, cdi_names, choose_handover
from moorage.engines.nvidia import Gpu, GpuMachine, NvmlAnswer, NvmlFailure, ask_nvml


@dataclass(frozen=True)
class GpuHost:
    """What was last found out. `facts` tell the rest."""

    machine: GpuMachine | None
    handover: Handover
    devices: tuple[GpuDevice, ...]
    findings: tuple[HostFinding, ...]
    files: DriverFiles
    cdi: Mapping[str, str]
    """By device, its name for CDI."""
    facts: HostFacts


@dataclass
class HostReader:
    root: Path = Path("/")
    ask: Callable[[], Awaitable[NvmlAnswer]] = ask_nvml
    wanted: str = AUTOMATIC
    sandbox: str | None = None
    is_local: bool = True
    _known: GpuMachine | None = field(init=False, default=None)
    """As NVML last described it: while it, or one of its GPUs, does not answer, that is still there."""

    async def read(
        self, information: Mapping[str, Any], images: Mapping[str, Mapping[str, str]] | None = None
    ) -> GpuHost:
        answer = await self.ask()
        return await asyncio.to_thread(self._read, answer, information, images or {})

    def _read(
        self,
        answer: NvmlAnswer,
        information: Mapping[str, Any],
        images: Mapping[str, Mapping[str, str]],
    ) -> GpuHost:
        engine = engine_facts(self.root, information, is_local=self.is_local, sandbox=self.sandbox)
        facts = replace(read_facts(self.root, answer, engine), images=images)
        handover = choose_handover(facts, self.wanted)
        silent = answer.failure is NvmlFailure.SILENT
        machine = answer.machine or (self._known if silent else None)
        gpus = machine.gpus if machine is not None else ()
        lost = self._lost(answer.machine)
        if answer.machine is not None:
            self._known = replace(answer.machine, gpus=(*gpus, *lost))
        return GpuHost(
            machine=machine,
            handover=handover,
            devices=(
                *(self._device(gpu, facts, handover) for gpu in gpus),
                *(replace(_device(gpu), unusable_because="it no longer answers") for gpu in lost),
            ),
            findings=diagnose(facts, self.wanted),
            files=facts.files,
            cdi=cdi_names(gpus, engine) or {},
            facts=facts,
        )

    def _lost(self, machine: GpuMachine | None) -> tuple[Gpu, ...]:
        """Those that answered earlier, where NVML counts some that do not."""
        if machine is None or not machine.lost or self._known is None:
            return ()
        answering = {gpu.device_id for gpu in machine.gpus}
        return tuple(gpu for gpu in self._known.gpus if gpu.device_id not in answering)

    def _device(self, gpu: Gpu, facts: HostFacts, handover: Handover) -> GpuDevice:
        because = unusable_because(gpu, facts)
        if handover.way is GpuHandover.DIRECT and gpu.minor is None:
            because = because or "the driver does not name its device node"
        elif _needs_node(handover, facts) and gpu.minor is not None and not facts.files.has_node(gpu.minor):
            because = because or f"its device node /dev/nvidia{gpu.minor} is missing"
        if handover.way is GpuHandover.NONE:
            because = because or f"it cannot be handed over to containers: {handover.reason}"
        return replace(_device(gpu), unusable_because=because)


def _needs_node(handover: Handover, facts: HostFacts) -> bool:
    """NVIDIA's runtime makes them; a CDI specification only names them."""
    return handover.way is GpuHandover.DIRECT or (handover.way is GpuHandover.CDI and facts.engine.is_local)


def _device(gpu: Gpu) -> GpuDevice:
    return GpuDevice(gpu.device_id, gpu.model, gpu.memory_bytes)
