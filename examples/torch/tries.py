"""What a process can see of GPUs, tried in every way that a curious one would. Each try tells whether it saw something."""

import ctypes
import glob
import os
import stat
import tempfile

import torch

NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_NUMBERS = {"nvidia0": (195, 0), "nvidiactl": (195, 255)}


def tries():
    found = {
        "torch.cuda.device_count": torch.cuda.device_count() > 0,
        "device nodes in /dev": bool(glob.glob("/dev/nvidia*")),
        "/proc/driver/nvidia/gpus": bool(glob.glob("/proc/driver/nvidia/gpus/*")),
        "NVML counts devices": _nvml_count() > 0,
        "CUDA counts devices": _cuda_count() > 0,
    }
    found |= {f"open /dev/{name}": _opens(f"/dev/{name}") for name in NODES}
    found |= {f"mknod {name}": _makes(*numbers) for name, numbers in _NUMBERS.items()}
    return found


def _opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True


def _makes(major, minor):
    """A node of one's own, and whether it opens."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "node")
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        except OSError:
            return False
        return _opens(path)


def _cuda_count():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    return count.value if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def _nvml_count():
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint(0)
    known = nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    return count.value if known else 0
