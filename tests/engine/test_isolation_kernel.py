"""What a process in a replica may ask of the kernel: a probe tries what an intruder would, as root and as nobody.

An attempt counts as refused only when the kernel says that it is not permitted, or that there is no such thing. Any
other answer, "invalid argument" included, means that the question of permission was passed, and is reported.
Every attempt is chosen so that it would change nothing if it were let through.
"""

from pathlib import Path

import pytest

from moorage.entrypoints.example_image import EXAMPLE_IMAGE
from tests.engine.conftest import DockerWorld
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    ROOT_IMAGE,
    answer_of,
    build_python_images,
    inspected,
    python_spec,
    script_of,
)

pytestmark = pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN)

EXPECTED_DEVICES = {
    "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
    "urandom", "zero",
}  # fmt: skip
# /sys/fs/cgroup itself is an empty tmpfs of the container's own with cgroup v1; the hierarchies below it are read-only.
EXPECTED_WRITABLE_MOUNTS = {"/", "/proc", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm", "/sys/fs/cgroup"}
ENGINE_FILES = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}
"""Docker makes these for each container; they are files of its own, below its data folder."""

KNOWN_GAPS = {
    "vsock to the hypervisor": "the system call filter of Docker before 23 lets AF_VSOCK pass",
    "read /proc/interrupts": "Docker masks it from 28 on",
    "read /proc/kpagecgroup": "uid 0 owns the file, and Docker does not mask it",
    "read /proc/kpagecount": "uid 0 owns the file, and Docker does not mask it",
    "read /proc/kpageflags": "uid 0 owns the file, and Docker does not mask it",
    "read /proc/vmallocinfo": "uid 0 owns the file, and Docker does not mask it",
}
"""What the engine's own defaults leave open. Named here one by one, so that nothing can join them unnoticed, and
reported as an expected failure for as long as one of them is there."""


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@pytest.mark.usefixtures("_images")
@pytest.mark.parametrize("image", [ROOT_IMAGE, EXAMPLE_IMAGE])
async def test_nothing_is_permitted(docker_world: DockerWorld, image: str) -> None:
    functions = (_system_calls, _namespaces, _identities, _sockets, _files, _processes, _try_all)
    script = script_of(*functions, call="_try_all()")
    answer = await answer_of(docker_world, await python_spec(docker_world, script, image=image))
    passed = {name: outcome for name, outcome in answer["tries"].items() if outcome is not None}
    print(f"\nuid {answer['uid']}: {len(answer['tries'])} tries, {len(passed)} not refused {passed}")
    assert answer["uid"] == (0 if image == ROOT_IMAGE else 65534)
    assert len(answer["tries"]) >= 100
    assert passed.keys() <= KNOWN_GAPS.keys()
    if passed:
        pytest.xfail("; ".join(f"{name}: {KNOWN_GAPS[name]}" for name in passed))


@pytest.mark.usefixtures("_images")
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


@pytest.mark.usefixtures("_images")
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


def _system_calls():  # type: ignore[no-untyped-def]
    """Name → a call that returns −1 or a result. The numbers are those of x86-64 and of arm64."""
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    scratch = ctypes.create_string_buffer(4096)
    here = os.uname().nodename.encode()
    now = (ctypes.c_long * 2)(*divmod(__import__("time").time_ns() // 1000, 1_000_000))
    now_ns = (ctypes.c_long * 2)(now[0], now[1] * 1000)
    tick = (ctypes.c_long * 40)(0x4000)  # ADJ_TICK, and the tick that every machine has
    tick[11] = 10_000
    calls = {
        "mount tmpfs": (165, 40, b"none", b"/tmp", b"tmpfs", 0, None),
        "mount proc": (165, 40, b"proc", b"/tmp", b"proc", 0, None),
        "mount sysfs": (165, 40, b"sysfs", b"/tmp", b"sysfs", 0, None),
        "mount cgroup": (165, 40, b"cgroup", b"/tmp", b"cgroup", 0, b"memory"),
        "mount cgroup2": (165, 40, b"none", b"/tmp", b"cgroup2", 0, None),
        "mount overlay": (165, 40, b"none", b"/tmp", b"overlay", 0, b"lowerdir=/etc:/usr"),
        "bind mount": (165, 40, b"/etc", b"/tmp", None, 4096, None),
        "remount /sys": (165, 40, None, b"/sys", None, 32, None),
        "remount /proc/sys": (165, 40, None, b"/proc/sys", None, 32 | 4096, None),
        "make / shared": (165, 40, None, b"/", None, 1 << 20, None),
        "umount /proc/sys": (166, 39, b"/proc/sys", 2),
        "umount /proc/kcore": (166, 39, b"/proc/kcore", 2),
        "umount /dev/shm": (166, 39, b"/dev/shm", 2),
        "pivot_root": (155, 41, b"/tmp", b"/tmp"),
        "chroot": (161, 51, b"/tmp"),
        "fsopen": (430, 430, b"tmpfs", 0),
        "fsmount": (432, 432, -1, 0, 0),
        "move_mount": (429, 429, -100, b"/tmp", -100, b"/tmp", 0),
        "open_tree clone": (428, 428, -100, b"/etc", 1),
        "mount_setattr": (442, 442, -100, b"/sys", 0, scratch, 32),
        "open_by_handle_at": (304, 265, -100, scratch, 0),
        "swapon": (167, 224, b"/tmp/swap", 0),
        "swapoff": (168, 225, b"/tmp/swap"),
        "acct": (163, 89, b"/tmp/acct"),
        "quotactl": (179, 60, 0x80000700, b"/dev/vda", 0, scratch),
        "keyctl session": (250, 219, 0, -3, 1),
        "keyctl describe": (250, 219, 6, -4, scratch, 4096),
        "add_key": (248, 217, b"user", b"probe", b"x", 1, -4),
        "request_key": (249, 218, b"user", b"probe", None, -4),
        "bpf map": (321, 280, 0, scratch, 72),
        "bpf program": (321, 280, 5, scratch, 72),
        "perf_event_open": (298, 241, scratch, 0, -1, -1, 0),
        "perf_event_open of the machine": (298, 241, scratch, -1, 0, -1, 0),
        "kexec_load": (246, 104, 0, 0, None, 0),
        "kexec_file_load": (320, 294, -1, -1, 0, None, 0),
        "init_module": (175, 105, scratch, 0, b""),
        "finit_module": (313, 273, -1, b"", 0),
        "delete_module": (176, 106, b"no_such_module", 0),
        "reboot": (169, 142, 0xFEE1DEAD, 672274793, 0, None),
        "sethostname": (170, 161, here, len(here)),
        "setdomainname": (171, 162, b"(none)", 6),
        "settimeofday": (164, 170, now, None),
        "clock_settime": (227, 112, 0, now_ns),
        "adjtimex": (159, 171, tick),
        "clock_adjtime": (305, 266, 0, tick),
        "syslog read": (103, 116, 3, scratch, 4096),
        "syslog clear": (103, 116, 5, None, 0),
        "vhangup": (153, 58),
        "lookup_dcookie": (212, 18, 0, scratch, 4096),
        "fanotify_init": (300, 262, 0, 0),
        "userfaultfd": (323, 282, 0),
        "setns by pidfd": (308, 268, -1, 0),
        "process_madvise": (440, 440, -1, None, 0, 20, 0),
        "kcmp": (312, 272, 1, 1, 0, 0, 0),
        "raise own nice": (141, 140, 0, 0, -20),
        "real-time scheduling": (144, 119, 0, 1, (ctypes.c_int * 1)(50)),
        "migrate_pages": (256, 238, 0, 1, scratch, scratch),
    }
    if column == 0:
        calls |= {
            "iopl": (172, 0, 3),
            "ioperm": (173, 0, 0x80, 1, 1),
            "modify_ldt": (154, 0, 0, scratch, 16),
            "uselib": (134, 0, b"/tmp/x"),
            "ustat": (136, 0, 0, scratch),
            "sysfs": (139, 0, 3),
            "nfsservctl": (180, 0, 0, None, None),
            "create_module": (174, 0, b"x", 64),
        }

    def perform(arguments):  # type: ignore[no-untyped-def]
        ctypes.set_errno(0)
        result = libc.syscall(arguments[column], *arguments[2:])
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
        return result

    return {name: lambda arguments=arguments: perform(arguments) for name, arguments in calls.items()}


def _namespaces():  # type: ignore[no-untyped-def]
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    clone_number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    flags = {
        "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
        "pid": 0x20000000, "net": 0x40000000, "time": 0x80,
    }  # fmt: skip
    paths = {"mount": "mnt", "pid": "pid"}

    def checked(result):  # type: ignore[no-untyped-def]
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
        return result

    def clone(flag):  # type: ignore[no-untyped-def]
        if checked(libc.syscall(clone_number, flag | 17, None, None, None, None)) == 0:
            os._exit(0)

    def enter(kind):  # type: ignore[no-untyped-def]
        with open(f"/proc/1/ns/{paths.get(kind, kind)}") as namespace:
            checked(libc.setns(namespace.fileno(), 0))

    tries = {}
    for kind, flag in flags.items():
        tries[f"unshare {kind}"] = lambda flag=flag: checked(libc.unshare(flag))
        tries[f"setns {kind}"] = lambda kind=kind: enter(kind)
        if kind != "time":  # its bit means something else to clone
            tries[f"clone {kind}"] = lambda flag=flag: clone(flag)
    tries["unshare user and all"] = lambda: checked(libc.unshare(sum(flags.values())))
    return tries


def _identities():  # type: ignore[no-untyped-def]
    import os
    import resource

    with open("/dev/shm/mine", "w") as file:
        file.write("x")

    def raise_limit(kind):  # type: ignore[no-untyped-def]
        hard = resource.getrlimit(kind)[1]
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
        except ValueError as exc:  # Python's word for EPERM here
            raise PermissionError(1, str(exc)) from None

    return {
        "setuid": lambda: os.setuid(1),
        "setgid": lambda: os.setgid(1),
        "setreuid": lambda: os.setreuid(1, 1),
        "setresuid": lambda: os.setresuid(1000, 1000, 1000),
        "setresgid": lambda: os.setresgid(1000, 1000, 1000),
        "setgroups": lambda: os.setgroups([4, 999]),
        "chown to another": lambda: os.chown("/dev/shm/mine", 1000, -1),
        "chgrp to another": lambda: os.chown("/dev/shm/mine", -1, 1000),
        "mknod /dev/mem": lambda: os.mknod("/dev/shm/mem", 0o20600, os.makedev(1, 1)),
        "mknod the first disk": lambda: os.mknod("/dev/shm/disk", 0o60600, os.makedev(8, 0)),
        "mknod /dev/kmsg": lambda: os.mknod("/dev/shm/kmsg", 0o20600, os.makedev(1, 11)),
        "more open files": lambda: raise_limit(resource.RLIMIT_NOFILE),
        "core files": lambda: raise_limit(resource.RLIMIT_CORE),
        "immutable attribute": lambda: os.setxattr("/dev/shm/mine", "trusted.probe", b"x"),
        "file capabilities": lambda: os.setxattr(
            "/dev/shm/mine", "security.capability", bytes.fromhex("0100000200200000" + "00" * 12)
        ),
    }


def _sockets():  # type: ignore[no-untyped-def]
    import fcntl
    import socket
    import struct

    def opened(family, kind, protocol=0):  # type: ignore[no-untyped-def]
        socket.socket(family, kind, protocol).close()

    def configure(request, data):  # type: ignore[no-untyped-def]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, request, data)

    def netlink(kind, body):  # type: ignore[no-untyped-def]
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as control:
            control.bind((0, 0))
            control.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
            answer = control.recv(4096)
        error = -struct.unpack_from("i", answer, 16)[0]
        if error:
            raise OSError(error, "")

    def mark():  # type: ignore[no-untyped-def]
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


def _files():  # type: ignore[no-untyped-def]
    import glob
    import os

    def read(path):  # type: ignore[no-untyped-def]
        with open(path, "rb", buffering=0) as file:
            if not file.read(64):
                raise PermissionError(13, "masked: there is nothing in it")

    def write(path, text):  # type: ignore[no-untyped-def]
        with open(path, "w") as file:
            file.write(text)

    def opened_for_writing(path):  # type: ignore[no-untyped-def]
        os.close(os.open(path, os.O_WRONLY))

    devices = ("mem", "kmem", "port", "kmsg", "sda", "vda", "nvme0n1", "loop0", "fuse", "net/tun", "kvm")
    devices += ("vsock", "vhost-net", "cpu/0/msr", "mapper/control", "rtc0", "nvram", "watchdog", "uinput")
    unreadable = ("kcore", "keys", "timer_list", "sched_debug", "latency_stats", "kmsg", "kpagecount", "kpageflags")
    unreadable += ("kpagecgroup", "interrupts", "vmallocinfo")
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
    tries = {f"open /dev/{name}": lambda name=name: read(f"/dev/{name}") for name in devices}
    tries |= {f"read /proc/{name}": lambda name=name: read(f"/proc/{name}") for name in unreadable}
    tries |= {f"write {path}": lambda path=path: opened_for_writing(path) for path in unwritable}
    for path in ("/proc/self/uid_map", "/proc/self/gid_map"):
        tries[f"map in {path}"] = lambda path=path: write(path, "0 0 4294967295")
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus"):
        tries[f"see {path}"] = lambda path=path: os.stat(path)
    for path in ("/sys/firmware", "/proc/acpi", "/proc/scsi"):

        def entries(path=path):  # type: ignore[no-untyped-def]
            if not os.listdir(path):
                raise PermissionError(13, "masked: there is nothing in it")

        tries[f"list {path}"] = entries
    return tries


def _processes():  # type: ignore[no-untyped-def]
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)

    def trace(pid):  # type: ignore[no-untyped-def]
        if libc.ptrace(16, pid, None, None) < 0:
            raise OSError(ctypes.get_errno(), "")

    def score(value):  # type: ignore[no-untyped-def]
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(value)

    strangers = (2, 100, 500, 1000, os.getpid() + 1000, os.getpid() + 20000)
    tries = {f"ptrace process {pid}": lambda pid=pid: trace(pid) for pid in strangers}
    tries |= {f"signal process {pid}": lambda pid=pid: os.kill(pid, 0) for pid in strangers}
    # 499 is refused too where the engine may set limits for good (CAP_SYS_RESOURCE), which not every machine allows.
    tries["be killed later than the engine"] = lambda: score("-1")
    tries["never be killed"] = lambda: score("-1000")
    return tries


def _try_all():  # type: ignore[no-untyped-def]
    import errno
    import json
    import os

    refusals = {errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.ENOENT, errno.ENODEV, errno.ENXIO}
    not_there = {errno.ESRCH, errno.EAFNOSUPPORT, errno.ENOTDIR, errno.EISDIR}
    outcomes = {}
    # The order matters: an unshare that is let through would make all that follows look permitted.
    for part in (_system_calls, _identities, _sockets, _files, _processes, _namespaces):
        for name, attempt in part().items():
            try:
                attempt()
                outcomes[name] = "done"
            except OSError as exc:
                known = refusals | not_there
                outcomes[name] = None if exc.errno in known else errno.errorcode.get(exc.errno, str(exc))
    print(json.dumps({"uid": os.getuid(), "tries": outcomes}))


def _look_around():  # type: ignore[no-untyped-def]
    import json
    import os
    import stat

    with open("/proc/self/status") as file:
        status = dict(line.strip().split(":\t", 1) for line in file if ":\t" in line)
    open_files = sorted(name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
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
        "other_processes": [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()],
        "writable_mounts": sorted(
            {mount[4] for mount in mounts if "ro" not in mount[5].split(",") and mount[3] != "/null"}
        ),
        "open_files": open_files,
        "interfaces": sorted(os.listdir("/sys/class/net")),
    }
    print(json.dumps(seen))
