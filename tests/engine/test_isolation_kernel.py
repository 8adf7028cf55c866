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
    answer_of,
    assert_all_refused,
    build_python_images,
    python_spec,
    script_of,
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
    await assert_all_refused(docker_world, image, *parts, at_least=100)


@pytest.mark.parametrize("image", [ROOT_IMAGE, EXAMPLE_IMAGE])
@pytest.mark.long
async def test_what_programs_need_is_there(docker_world: DockerWorld, image: str) -> None:
    """What Python, PyTorch, CUDA's libraries and NCCL ask for; a filter that is too tight shows here, not in a user's log."""
    script = script_of(_ordinary_work, call="_ordinary_work()")
    answer = await answer_of(docker_world, await python_spec(docker_world, script, image=image))
    assert len(answer) >= 20
    assert {name: outcome for name, outcome in answer.items() if outcome != "done"} == {}


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
        "move_pages": (279, 239, 0, 0, None, None, None, 0),
        "io_uring_setup": (425, 425, 1, scratch),
        "io_uring_enter": (426, 426, -1, 0, 0, 0, None, 0),
        "io_uring_register": (427, 427, -1, 0, None, 0),
        "clone3": (435, 435, scratch, 0),
        "mq_open": (240, 180, b"probe", 0o102, 0o600, None),
        "name_to_handle_at": (303, 264, -100, b"/", scratch, scratch, 0),
        "another personality": (135, 92, 0x0040000),
        "vsock in the upper half": (41, 198, (1 << 32) + 40, 1, 0),
        "a socket of no listed family": (41, 198, 38, 5, 0),
        "netlink to the packet filter": (41, 198, 16, 3, 12),
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
        # As whole registers: the kernel also reads the half of one that a C int leaves as it was.
        whole = [
            ctypes.c_long(one) if isinstance(one, int) else one for one in (arguments[column], *arguments[2:])
        ]
        result: int = libc.syscall(*whole)
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


def _ordinary_work() -> None:
    import asyncio
    import ctypes
    import json
    import mmap
    import multiprocessing
    import os
    import platform
    import select
    import socket
    import subprocess
    import tempfile
    import threading
    import time
    from multiprocessing import shared_memory

    libc = ctypes.CDLL(None, use_errno=True)
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]

    def call(x86: int, arm: int, *arguments: object) -> int:
        whole = [
            ctypes.c_long(one) if isinstance(one, int) else one for one in ((x86, arm)[column], *arguments)
        ]
        result: int = libc.syscall(*whole)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def threads() -> None:
        seen: list[int] = []
        several = [threading.Thread(target=lambda: seen.append(threading.get_native_id())) for _ in range(50)]
        for one in several:
            one.start()
        for one in several:
            one.join()
        assert len(seen) == 50

    def processes() -> None:
        assert subprocess.run(["/bin/busybox", "true"], check=True).returncode == 0
        worker = multiprocessing.get_context("fork").Process(target=lambda: None)
        worker.start()
        worker.join()
        assert worker.exitcode == 0

    def memory_shared() -> None:
        block = shared_memory.SharedMemory(create=True, size=1 << 20)
        block.buf[:4] = b"here"
        block.close()
        block.unlink()

    def system_v_memory() -> None:
        identity = libc.shmget(0, 4096, 0o1600)
        assert identity >= 0
        assert libc.shmctl(identity, 0, None) == 0

    def locked_memory() -> None:
        page = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        assert libc.mlock(ctypes.c_void_p(address), 4096) == 0

    def file_in_memory() -> None:
        with os.fdopen(os.memfd_create("weights", os.MFD_CLOEXEC), "r+b") as file:
            file.write(b"x" * 4096)
            file.flush()
            mmap.mmap(file.fileno(), 0).close()

    def memory_places() -> None:
        mode, mask = ctypes.c_int(), (ctypes.c_ulong * 16)()
        call(239, 236, ctypes.byref(mode), mask, 1024, None, 0)
        call(238, 237, 0, None, 0)
        page = mmap.mmap(-1, 4096)
        call(
            237, 235, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), 4096, 0, None, 0, 0
        )

    def own_memory_of_another_process() -> None:
        data, copy = ctypes.create_string_buffer(b"model"), ctypes.create_string_buffer(6)

        def part(buffer: object) -> object:
            return (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 6)  # type: ignore[arg-type]

        assert call(310, 270, os.getpid(), part(copy), 1, part(data), 1, 0) == 6
        assert copy.value == b"model"

    def descriptor_of_another_process() -> None:
        handle = os.pidfd_open(os.getpid())
        os.close(call(438, 438, handle, 1, 0))
        os.close(handle)

    def changed_files_are_noticed() -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, socket.socket() as _:
            handle = libc.inotify_init1(0o4000)
            assert libc.inotify_add_watch(handle, folder.encode(), 0x100) >= 0
            open(f"{folder}/new", "w").close()
            assert select.select([handle], [], [], 5)[0]
            os.close(handle)

    def asynchronous_files() -> None:
        context = ctypes.c_ulong()
        call(206, 0, 8, ctypes.byref(context))
        call(207, 1, context)

    def sockets() -> None:
        socket.getaddrinfo("localhost", 80)
        assert ("lo" in {name for _, name in socket.if_nameindex()}) is True
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
            socket.socket(family, socket.SOCK_STREAM).close()
        left, right = socket.socketpair()
        socket.send_fds(left, [b"x"], [0])
        assert len(socket.recv_fds(right, 1, 1)[1]) == 1

    def server() -> None:
        async def talk() -> None:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(await reader.readline())
                await writer.drain()
                writer.close()

            serving = await asyncio.start_server(answer, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*serving.sockets[0].getsockname())
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            writer.close()
            serving.close()

        asyncio.run(talk())

    def traced_child() -> None:
        child = os.fork()
        if child == 0:
            time.sleep(60)
        assert libc.ptrace(16, child, None, None) == 0
        os.kill(child, 9)
        os.waitpid(child, 0)

    def timers() -> None:
        timer = ctypes.c_int()
        call(222, 107, 1, None, ctypes.byref(timer))
        call(226, 111, timer)

    work = {
        "threads": threads,
        "processes": processes,
        "shared memory": memory_shared,
        "system V memory": system_v_memory,
        "locked memory": locked_memory,
        "a file in memory": file_in_memory,
        "memory places": memory_places,
        "own memory of another process": own_memory_of_another_process,
        "descriptor of another process": descriptor_of_another_process,
        "changed files are noticed": changed_files_are_noticed,
        "asynchronous files": asynchronous_files,
        "sockets": sockets,
        "a server": server,
        "a traced child": traced_child,
        "timers": timers,
        "processors chosen": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "lower priority": lambda: os.nice(1),
        "random numbers": lambda: os.getrandom(16),
        "asks for its personality": lambda: call(135, 92, ctypes.c_ulong(0xFFFFFFFF)),
        "a copy within files": lambda: os.statvfs("/"),
        "no new privileges": lambda: libc.prctl(38, 1, 0, 0, 0),
        "advice on memory": lambda: mmap.mmap(-1, 4096).madvise(mmap.MADV_HUGEPAGE),
    }
    outcomes = {}
    for name, part in work.items():
        try:
            part()  # type: ignore[operator]
            outcomes[name] = "done"
        except (OSError, AssertionError) as exc:
            outcomes[name] = repr(exc)
    print(json.dumps(outcomes))
