"""What NVIDIA's library and the kernel's log say of GPUs that are in use: who broke, and who computes on them."""

import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from gpu_machines import H200, FakeHost, nvml

from moorage.engines import nvidia_usage
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.gpus import Gpus
from moorage.engines.hosts.host import HostReader
from moorage.engines.nvidia import NvmlAnswer, NvmlFailure, ask_nvml
from moorage.engines.nvml_thread import NvmlThread
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError

NO_ROWS = (0, 0, 0, 0)
NO_SPARE_ROW = (0, 9, 0, 1)


@dataclass
class Library:
    """NVIDIA's library on a machine with these GPUs. A number instead of an answer is the error it gives."""

    gpus: dict[str, Any]
    """By id: its memory rows."""
    loads: int | None = None
    """The error with which it does not."""
    users: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def answer(self, device_id: str) -> Any:
        if isinstance(self.gpus[device_id], int):
            raise pynvml.NVMLError(self.gpus[device_id])
        return self.gpus[device_id]

    def load(self) -> None:
        if self.loads is not None:
            raise pynvml.NVMLError(self.loads)

    def find(self, device_id: str) -> str:
        if device_id not in self.gpus:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return device_id

    def unsupported(self, *_: object, **__: object) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def memory(self, device_id: str) -> SimpleNamespace:
        self.answer(device_id)
        return SimpleNamespace(total=141 * 2**30)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library({"GPU-0": NO_ROWS, "GPU-1": NO_ROWS})
    answers: dict[str, Any] = {
        "nvmlInit": library.load,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
        "nvmlDeviceGetCount": lambda: len(library.gpus),
        "nvmlDeviceGetHandleByIndex": lambda index: list(library.gpus)[index],
        "nvmlDeviceGetHandleByUUID": library.find,
        "nvmlDeviceGetUUID": lambda handle: handle,
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": library.memory,
        "nvmlDeviceGetRemappedRows": library.answer,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
            SimpleNamespace(pid=pid) for pid in library.users.get(handle, ())
        ],
    }
    for name in (
        "MinorNumber", "PciInfo", "TotalEccErrors", "RetiredPagesPendingStatus", "PersistenceMode", "ComputeMode",
        "MigMode", "GpuFabricInfo",
    ):  # fmt: skip
        answers[f"nvmlDeviceGet{name}"] = library.unsupported
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(nvidia_usage, "_loaded", False)
    return library


@pytest.mark.parametrize(
    ("rows", "because"),
    [
        (NO_ROWS, None),
        (NO_SPARE_ROW, "its memory is worn out: no spare row is left"),
        (pynvml.NVML_ERROR_GPU_IS_LOST, "it has fallen off the bus"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, "it needs a reset"),
    ],
)
async def test_a_gpu_that_broke_and_not_its_neighbour(
    library: Library, rows: Any, because: str | None
) -> None:
    library.gpus["GPU-0"] = rows
    found = await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1"))
    assert found == ({} if because is None else {"GPU-0": because})


async def test_a_gpu_that_is_gone_and_comes_back(library: Library) -> None:
    rows = library.gpus.pop("GPU-0")
    assert await nvidia_usage.read_gpu_problems(("GPU-0",)) == {
        "GPU-0": "the driver does not know it any more"
    }
    library.gpus["GPU-0"] = rows
    assert await nvidia_usage.read_gpu_problems(("GPU-0",)) == {}


async def test_a_driver_that_is_gone_takes_all_of_them(library: Library) -> None:
    library.loads = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    found = await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1"))
    assert found == dict.fromkeys(("GPU-0", "GPU-1"), "the NVIDIA driver is not loaded any more")


async def test_what_is_not_known_is_no_fault_of_a_gpu(library: Library) -> None:
    library.loads = pynvml.NVML_ERROR_TIMEOUT
    with pytest.raises(EngineError):
        await nvidia_usage.read_gpu_problems(("GPU-0",))


async def test_a_library_that_is_missing_says_nothing_of_what_computes(library: Library) -> None:
    """It is exchanged under a controller that starts just then; the driver is loaded, and containers have files of their own."""
    library.loads = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with pytest.raises(EngineError, match="NVML"):
        await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1"))


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_OPERATING_SYSTEM,
        pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
        pynvml.NVML_ERROR_TIMEOUT,
    ],
)
async def test_what_the_library_says_of_itself_ends_nobody(library: Library, error: int) -> None:
    library.gpus["GPU-0"] = error
    with pytest.raises(EngineError, match="NVML"):
        await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1"))
    # Nor does it hide what is known of another.
    library.gpus["GPU-1"] = pynvml.NVML_ERROR_GPU_IS_LOST
    found = await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1"))
    assert found == {"GPU-1": "it has fallen off the bus"}


async def test_half_an_answer_is_an_error_like_any_other(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(_: str) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetRemappedRows", rows)
    with pytest.raises(EngineError, match="NVML"):
        await nvidia_usage.read_gpu_problems(("GPU-0",))


async def test_a_name_that_is_no_text_hides_no_other_gpu(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(handle: str) -> str:
        return b"\xff\xfe".decode() if handle == "GPU-0" else "NVIDIA H200"

    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", name)
    machine = (await ask_nvml()).machine
    assert machine is not None
    assert ([gpu.device_id for gpu in machine.gpus], machine.lost) == (["GPU-1"], (0,))


async def test_who_computes_on_a_gpu(library: Library) -> None:
    library.users = {"GPU-0": (7, 8), "GPU-1": (9,)}
    assert await nvidia_usage.read_gpu_users(("GPU-0",)) == {7, 8}
    assert await nvidia_usage.read_gpu_users(()) == frozenset()


async def test_one_that_does_not_answer_hides_no_other(library: Library) -> None:
    library.gpus["GPU-0"] = pynvml.NVML_ERROR_GPU_IS_LOST
    machine = (await ask_nvml()).machine
    assert machine is not None
    assert ([gpu.device_id for gpu in machine.gpus], machine.lost) == (["GPU-1"], (0,))


async def test_a_gpu_without_memory_of_its_own_is_well_and_its_memory_unknown(
    library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as GB10: it computes in the machine's memory, and NVML says Not Supported."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", library.unsupported)
    assert await nvidia_usage.read_gpu_problems(("GPU-0", "GPU-1")) == {}
    answer = await ask_nvml()
    assert answer.machine is not None
    assert [(gpu.device_id, gpu.memory_bytes) for gpu in answer.machine.gpus] == [
        ("GPU-0", None),
        ("GPU-1", None),
    ]
    assert answer.machine.lost == ()
    host = FakeHost(tmp_path, answer=nvml(replace(H200, memory_bytes=None)))
    assert [(one.memory_bytes, one.unusable_because) for one in (await host.read()).devices] == [(None, None)]


async def test_a_lost_gpu_hides_no_other_ones_figures(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def utilization(handle: str) -> SimpleNamespace:
        library.answer(handle)
        return SimpleNamespace(gpu=40)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", utilization)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", library.unsupported)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", library.unsupported)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", library.unsupported)
    for lost in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN):
        library.gpus["GPU-0"] = lost
        usage = await nvidia_usage.read_gpu_usage(("GPU-0", "GPU-1"))
        assert {name: one.utilization_percent for name, one in usage.items()} == {"GPU-1": 40}
    library.gpus["GPU-0"] = pynvml.NVML_ERROR_TIMEOUT
    with pytest.raises(EngineError, match="what the GPUs do"):
        await nvidia_usage.read_gpu_usage(("GPU-0", "GPU-1"))


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, NvmlFailure.NO_LIBRARY),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, NvmlFailure.NO_DRIVER),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, NvmlFailure.MISMATCH),
        (pynvml.NVML_ERROR_UNKNOWN, NvmlFailure.OTHER),
    ],
)
async def test_why_the_library_tells_nothing(library: Library, error: int, failure: NvmlFailure) -> None:
    library.loads = error
    assert (await ask_nvml()).failure is failure


async def test_a_fatal_word_in_the_kernels_log_is_a_problem_too(library: Library, tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    other = replace(H200, device_id="GPU-1", index=1, minor=1, bus_id="00000000:4C:00.0")

    async def ask() -> NvmlAnswer:
        return nvml(H200, other)

    gpus = Gpus(DockerConnection("unix:///nowhere.sock"), HostReader(tmp_path, ask), system_clock)
    await gpus.look(host.information)
    host.log("NVRM: Xid (PCI:0000:4c:00): 31, MMU Fault", "NVRM: Xid (PCI:0000:3b:00): 119, Timeout")
    assert await gpus.problems(("GPU-0", "GPU-1")) == {
        "GPU-0": "its own processor (GSP) does not answer (Xid 119)"
    }
    assert await gpus.problems(("GPU-1",)) == {}


async def test_the_kernels_log_is_read_also_while_the_library_hangs(
    library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A GPU whose processor does not answer (Xid 119) is what makes it hang."""
    host, released = FakeHost(tmp_path), threading.Event()

    async def ask() -> NvmlAnswer:
        return nvml(H200)

    monkeypatch.setattr(pynvml, "nvmlInit", released.wait)
    monkeypatch.setattr(nvidia_usage, "_TIMEOUT_S", 0.05)
    gpus = Gpus(DockerConnection("unix:///nowhere.sock"), HostReader(tmp_path, ask), system_clock)
    try:
        await gpus.look(host.information)
        with pytest.raises(EngineError, match="NVML did not answer"):
            await gpus.problems(("GPU-0",))
        host.log("NVRM: Xid (PCI:0000:3b:00): 119, Timeout")
        found = await gpus.problems(("GPU-0",))
    finally:
        released.set()
    assert found == {"GPU-0": "its own processor (GSP) does not answer (Xid 119)"}


_ASK_A_DRIVER_THAT_HANGS = """
import asyncio, threading, pynvml
from moorage.engines import nvidia
pynvml.nvmlInit = threading.Event().wait
nvidia._TIMEOUT_S = 0.05
print(asyncio.run(nvidia.ask_nvml()).failure)
"""


def test_a_process_ends_while_the_driver_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASK_A_DRIVER_THAT_HANGS], capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.returncode) == ("silent\n", 0), done.stderr


def test_a_question_that_fails_fails_for_whoever_asked_and_the_next_is_answered() -> None:
    thread = NvmlThread()
    failing, answered = thread.submit(int, "no number"), thread.submit(int, "7")
    with pytest.raises(ValueError, match="no number"):
        failing.result(timeout=10)
    assert answered.result(timeout=10) == 7


def test_questions_that_nobody_waits_for_any_more_do_not_pile_up() -> None:
    thread, asked, released = NvmlThread(), threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        released.wait(10)

    thread.submit(hang)
    assert asked.wait(10)
    given_up = [thread.submit(int, "7") for _ in range(100)]
    assert all(one.cancel() for one in given_up)
    last = thread.submit(int, "8")
    assert len(thread._questions) == 1
    released.set()
    assert last.result(timeout=10) == 8
