"""What a replica finds around it: devices, files, sockets, processes. All of it its own, or refused."""

from pathlib import Path

import pytest

from moorage.entrypoints.example_image import EXAMPLE_IMAGE
from tests.engine.conftest import DockerWorld
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    ROOT_IMAGE,
    Attempts,
    answer_of,
    assert_all_refused,
    build_python_images,
    inspected,
    python_spec,
    script_of,
)

pytestmark = [
    pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN),
    pytest.mark.usefixtures("_images"),
]

EXPECTED_DEVICES = {
    "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
    "urandom", "zero",
}  # fmt: skip
# /sys/fs/cgroup itself is an empty tmpfs of the container's own with cgroup v1; the hierarchies below it are read-only.
EXPECTED_WRITABLE_MOUNTS = {"/", "/proc", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm", "/sys/fs/cgroup"}
ENGINE_FILES = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}
"""Docker makes these for each container; they are files of its own, below its data folder."""


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@pytest.mark.parametrize("image", [ROOT_IMAGE, EXAMPLE_IMAGE])
async def test_nothing_can_be_opened(docker_world: DockerWorld, image: str) -> None:
    await assert_all_refused(docker_world, image, _sockets, _files, _processes, at_least=80)


async def test_what_is_there_to_be_seen(docker_world: DockerWorld) -> None:
    answer = await answer_of(
        docker_world, await python_spec(docker_world, script_of(_look_around, call="_look_around()"))
    )
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert answer["status"][capabilities] == "0" * 16
    assert (answer["status"]["NoNewPrivs"], answer["status"]["Seccomp"]) == ("1", "2")
    assert set(answer["devices"]) <= EXPECTED_DEVICES
    assert answer["sockets"] == []
    assert answer["other_processes"] == []
    assert set(answer["writable_mounts"]) - ENGINE_FILES <= EXPECTED_WRITABLE_MOUNTS
    assert answer["open_files"] == ["0", "1", "2"]
    assert answer["interfaces"] == ["eth0", "lo"]


async def test_no_file_of_the_host_is_mounted(docker_world: DockerWorld) -> None:
    started = await docker_world.engine.start(await python_spec(docker_world, None))
    found = await inspected(docker_world, started)
    assert found["Mounts"] == []
    folder = Path(found["HostsPath"]).parent
    mounted = _mount_sources(int(found["State"]["Pid"]))
    assert {target for target, source in mounted.items() if str(folder) in source} == ENGINE_FILES
    outside = {target: source for target, source in mounted.items() if target not in ENGINE_FILES | {"/"}}
    # What is left is of the kernel's own filesystems; a bind mount of a host folder would show a path.
    assert all(source.split(" ", 1)[0] != found["GraphDriver"]["Name"] for source in outside.values())
    assert not [
        source for source in outside.values() if source.startswith(("ext4 ", "xfs ", "btrfs ", "overlay "))
    ]


def _mount_sources(pid: int) -> dict[str, str]:
    """Mount point inside → filesystem type and root, as the host sees it."""
    mounts: dict[str, str] = {}
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        mounts[left.split()[4]] = f"{right.split()[0]} {left.split()[3]}"
    return mounts


# What follows runs inside the container.


def _sockets() -> "Attempts":
    import fcntl
    import socket
    import struct

    def opened(family: int, kind: int, protocol: int = 0) -> None:
        socket.socket(family, kind, protocol).close()

    def configure(request: int, data: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, request, data)

    def netlink(kind: int, body: bytes) -> None:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as control:
            control.bind((0, 0))
            control.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
            answer = control.recv(4096)
        error = -struct.unpack_from("i", answer, 16)[0]
        if error:
            raise OSError(error, "")

    def mark() -> None:
        with socket.socket() as marked:
            marked.setsockopt(socket.SOL_SOCKET, 36, 1)

    return {
        "raw icmp": lambda: opened(socket.AF_INET, socket.SOCK_RAW, 1),
        "raw tcp": lambda: opened(socket.AF_INET, socket.SOCK_RAW, 6),
        "raw ip": lambda: opened(socket.AF_INET, socket.SOCK_RAW, 255),
        "raw ipv6": lambda: opened(socket.AF_INET6, socket.SOCK_RAW, 58),
        "packet, raw": lambda: opened(socket.AF_PACKET, socket.SOCK_RAW, 0x300),
        "packet, cooked": lambda: opened(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300),
        "vsock to the hypervisor": lambda: opened(40, socket.SOCK_STREAM),
        "mark packets": mark,
        "own address by ioctl": lambda: configure(
            0x8916, struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, socket.inet_aton("127.0.0.1"))
        ),
        "interface flags by ioctl": lambda: configure(0x8914, struct.pack("16sH14x", b"lo", 0x49)),
        "new route": lambda: netlink(24, struct.pack("BBBBBBBBI", 2, 32, 0, 0, 254, 4, 253, 1, 0)),
        "new link": lambda: netlink(16, struct.pack("BBHiII", 0, 0, 0, 0, 0, 0)),
        "new address": lambda: netlink(20, struct.pack("BBBBI", 2, 32, 0, 0, 1)),
    }


def _files() -> "Attempts":
    import glob
    import os
    from functools import partial

    def read(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            if not file.read(64):
                raise PermissionError(13, "masked: there is nothing in it")

    def entries(path: str) -> None:
        if not os.listdir(path):
            raise PermissionError(13, "masked: there is nothing in it")

    def write(path: str, text: str) -> None:
        with open(path, "w") as file:
            file.write(text)

    def opened_for_writing(path: str) -> None:
        os.close(os.open(path, os.O_WRONLY))

    devices: tuple[str, ...] = (
        "mem",
        "kmem",
        "port",
        "kmsg",
        "sda",
        "vda",
        "nvme0n1",
        "loop0",
        "fuse",
        "net/tun",
        "kvm",
    )
    devices += ("vsock", "vhost-net", "cpu/0/msr", "mapper/control", "rtc0", "nvram", "watchdog", "uinput")
    unreadable: tuple[str, ...] = (
        "kcore",
        "keys",
        "timer_list",
        "sched_debug",
        "latency_stats",
        "kmsg",
        "kpagecount",
        "kpageflags",
    )
    unreadable += ("kpagecgroup", "interrupts", "vmallocinfo", "slabinfo", "pagetypeinfo", "key-users")
    unwritable = (
        "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/modprobe", "/proc/sys/kernel/panic", "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/disable_ipv6",
        "/proc/sys/fs/file-max", "/proc/sys/user/max_user_namespaces", "/proc/irq/default_smp_affinity",
        "/proc/bus/pci/devices", "/proc/fs", "/proc/mtrr",
        "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
        "/sys/class/net/eth0/mtu", "/sys/module/kernel/parameters/panic", "/sys/block/vda/queue/scheduler",
        "/sys/devices/system/cpu/cpu1/online", "/sys/fs/cgroup/cgroup.procs",
        *sorted(glob.glob("/sys/fs/cgroup/*/release_agent") + glob.glob("/sys/fs/cgroup/*/*limit*"))[:6],
    )  # fmt: skip
    tries: Attempts = {f"open /dev/{name}": partial(read, f"/dev/{name}") for name in devices}
    tries |= {f"read /proc/{name}": partial(read, f"/proc/{name}") for name in unreadable}
    tries |= {f"write {path}": partial(opened_for_writing, path) for path in unwritable}
    for path in ("/proc/self/uid_map", "/proc/self/gid_map"):
        tries[f"map in {path}"] = partial(write, path, "0 0 4294967295")
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus"):
        tries[f"see {path}"] = partial(os.stat, path)
    for path in ("/sys/firmware", "/proc/acpi", "/proc/scsi"):
        tries[f"list {path}"] = partial(entries, path)
    return tries


def _processes() -> "Attempts":
    import ctypes
    import os
    from functools import partial

    libc = ctypes.CDLL(None, use_errno=True)

    def trace(pid: int) -> None:
        if libc.ptrace(16, pid, None, None) < 0:
            raise OSError(ctypes.get_errno(), "")

    def score(value: str) -> None:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(value)

    strangers = (2, 100, 500, 1000, os.getpid() + 1000, os.getpid() + 20000)
    tries: Attempts = {f"ptrace process {pid}": partial(trace, pid) for pid in strangers}
    tries |= {f"signal process {pid}": partial(os.kill, pid, 0) for pid in strangers}
    # 499 is refused too where the engine may set limits for good (CAP_SYS_RESOURCE), which not every machine allows.
    tries["be killed later than the engine"] = lambda: score("-1")
    tries["never be killed"] = lambda: score("-1000")
    return tries


def _look_around() -> None:
    import json
    import os
    import stat

    with open("/proc/self/status") as file:
        status = dict(line.strip().split(":\t", 1) for line in file if ":\t" in line)
    open_files = sorted(
        name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")
    )
    sockets = [
        os.path.join(folder, name)
        for folder, folders, names in os.walk("/")
        if not folder.startswith(("/proc", "/sys"))
        for name in names
        if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)
    ]
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    seen = {
        "status": status,
        "devices": sorted(os.listdir("/dev")),
        "sockets": sockets,
        "other_processes": [
            name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()
        ],
        "writable_mounts": sorted(
            {mount[4] for mount in mounts if "ro" not in mount[5].split(",") and mount[3] != "/null"}
        ),
        "open_files": open_files,
        "interfaces": sorted(os.listdir("/sys/class/net")),
    }
    print(json.dumps(seen))
