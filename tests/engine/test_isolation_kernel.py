"""What a process in a replica may ask of the kernel: a probe tries what an intruder would, as root and as nobody.

Every attempt is chosen so that it would change nothing if it were let through.
"""

import pytest

from moorage.entrypoints.example_image import EXAMPLE_IMAGE
from tests.engine.conftest import DockerWorld
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    ROOT_IMAGE,
    Attempts,
    assert_all_refused,
    build_python_images,
)

pytestmark = [
    pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN),
    pytest.mark.usefixtures("_images"),
]


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@pytest.mark.parametrize("image", [ROOT_IMAGE, EXAMPLE_IMAGE])
async def test_nothing_is_permitted(docker_world: DockerWorld, image: str) -> None:
    # The order matters: an unshare that is let through would make all that follows look permitted.
    parts = (_system_calls, _identities, _namespaces)
    await assert_all_refused(docker_world, image, *parts, at_least=90)


# What follows runs inside the container.


def _system_calls() -> "Attempts":
    """Name → a call that returns −1 or a result. The numbers are those of x86-64 and of arm64."""
    import ctypes
    import os
    import platform
    from functools import partial

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

    def perform(arguments: tuple[object, ...]) -> int:
        ctypes.set_errno(0)
        result: int = libc.syscall(arguments[column], *arguments[2:])
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
        return result

    return {name: partial(perform, arguments) for name, arguments in calls.items()}


def _namespaces() -> "Attempts":
    import ctypes
    import os
    import platform
    from functools import partial

    libc = ctypes.CDLL(None, use_errno=True)
    clone_number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    flags = {
        "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
        "pid": 0x20000000, "net": 0x40000000, "time": 0x80,
    }  # fmt: skip
    paths = {"mount": "mnt", "pid": "pid"}

    def checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
        return result

    def unshare(flag: int) -> None:
        checked(libc.unshare(flag))

    def clone(flag: int) -> None:
        if checked(libc.syscall(clone_number, flag | 17, None, None, None, None)) == 0:
            os._exit(0)

    def enter(kind: str) -> None:
        with open(f"/proc/1/ns/{paths.get(kind, kind)}") as namespace:
            checked(libc.setns(namespace.fileno(), 0))

    tries: Attempts = {}
    for kind, flag in flags.items():
        tries[f"unshare {kind}"] = partial(unshare, flag)
        tries[f"setns {kind}"] = partial(enter, kind)
        if kind != "time":  # its bit means something else to clone
            tries[f"clone {kind}"] = partial(clone, flag)
    tries["unshare user and all"] = partial(unshare, sum(flags.values()))
    return tries


def _identities() -> "Attempts":
    import os
    import resource

    with open("/dev/shm/mine", "w") as file:
        file.write("x")

    def raise_limit(kind: int) -> None:
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
