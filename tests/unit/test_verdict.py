"""What is said about a replica that ended or does not come up, from what could be seen of it."""

import pytest

from moorage.containers.states import Reason
from moorage.containers.verdict import Probe, ProbeFailure, verdict_on_exit, verdict_while_unready
from moorage.engines.base import ListeningSocket

MEMORY_BYTES = 2**28
DISK_BYTES = 10 * 2**30


def test_what_ended_in_the_middle_of_its_download_goes_on_from_there() -> None:
    verdict = verdict_on_exit(1, False, MEMORY_BYTES, DISK_BYTES, ("ConnectionError",), 62 * 2**20)
    assert verdict.reason is Reason.EXITED
    assert verdict.message.startswith(
        "It ended while downloading weights (62 MiB are kept). Start it again: it goes on from there."
    )
    # What is known for certain comes first.
    for told in (
        verdict_on_exit(137, True, MEMORY_BYTES, DISK_BYTES, (), 62 * 2**20),
        verdict_on_exit(137, False, MEMORY_BYTES, DISK_BYTES, (), 62 * 2**20),
        verdict_on_exit(1, False, MEMORY_BYTES, DISK_BYTES, ("No space left on device",), 62 * 2**20),
    ):
        assert "downloading" not in told.message


@pytest.mark.parametrize(
    ("last_line", "reason", "words"),
    [
        ("OSError: [Errno 28] No space left on device: '/tmp/model'", Reason.DISK_FULL, "no space was left"),
        ("dd: error writing '/x': No space left on device", Reason.DISK_FULL, "no space was left"),
        ("write failed: Disk quota exceeded", Reason.DISK_FULL, "no space was left"),
        ("RuntimeError: can't start new thread", Reason.PIDS_LIMIT, "4096"),
        ("sh: can't fork: Resource temporarily unavailable", Reason.PIDS_LIMIT, "4096"),
        ("-bash: fork: retry: Resource temporarily unavailable", Reason.PIDS_LIMIT, "4096"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", Reason.PIDS_LIMIT, "4096"),
        (
            "OpenBLAS: pthread_create failed for thread 7 of 64: Resource temporarily unavailable",
            Reason.PIDS_LIMIT,
            "4096",
        ),
        ("chown: /data: Operation not permitted", Reason.MISSING_CAPABILITY, "(chown)"),
        (
            "chown: changing ownership of '/data': Operation not permitted",
            Reason.MISSING_CAPABILITY,
            "(chown)",
        ),
        ("nginx: setgid(101) failed (1: Operation not permitted)", Reason.MISSING_CAPABILITY, "(setgid)"),
        (
            'error: failed switching to "app": gosu: operation not permitted',
            Reason.MISSING_CAPABILITY,
            "(gosu)",
        ),
        (
            "PermissionError: [Errno 1] Operation not permitted: os.setuid",
            Reason.MISSING_CAPABILITY,
            "(setuid)",
        ),
        ("recv: Resource temporarily unavailable", Reason.EXITED, "exit code 1"),
        ("open /etc/shadow: Operation not permitted", Reason.EXITED, "exit code 1"),
        ("Traceback (most recent call last):", Reason.EXITED, "exit code 1"),
    ],
)
def test_the_last_lines_name_the_limit_that_was_met(last_line: str, reason: Reason, words: str) -> None:
    verdict = verdict_on_exit(1, False, MEMORY_BYTES, DISK_BYTES, ["starting", last_line, "bye"])
    assert verdict.reason is reason
    assert words in verdict.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exec /serve: exec format error", "cannot run on this machine"),
        ("exec /entrypoint.sh: no such file or directory", "was not found in the image"),
    ],
)
def test_what_could_not_be_executed_is_a_wrong_start_command(line: str, words: str) -> None:
    verdict = verdict_on_exit(255, False, MEMORY_BYTES, DISK_BYTES, [line])
    assert verdict.reason is Reason.START_COMMAND_NOT_FOUND
    assert words in verdict.message
    assert (
        verdict_on_exit(255, False, MEMORY_BYTES, DISK_BYTES, [line, "something else"]).reason
        is Reason.EXITED
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9765.62 GiB. GPU 0 has a total capacity of 139 GiB",
        "RuntimeError: CUDA error: out of memory",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096 MiB on device 0: cudaMalloc failed: out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ],
)
def test_a_gpus_memory_that_was_too_small_has_a_verdict_of_its_own(line: str) -> None:
    verdict = verdict_on_exit(1, False, 2**30, 2**30, ("Traceback (most recent call last):", line))
    assert verdict.reason is Reason.GPU_OUT_OF_MEMORY
    assert "its GPU's memory was too small" in verdict.message
    assert line not in verdict.message
    # Killed for the machine's memory is another matter, and comes first.
    assert verdict_on_exit(137, True, 2**30, 2**30, (line,)).reason is Reason.OUT_OF_MEMORY


def test_what_it_wrote_is_not_repeated() -> None:
    verdict = verdict_on_exit(
        1, False, MEMORY_BYTES, DISK_BYTES, ["chown canary-4711: Operation not permitted"]
    )
    assert "canary" not in verdict.message


def test_a_clean_end_and_memory_come_before_the_lines() -> None:
    lines = ["No space left on device"]
    assert verdict_on_exit(0, False, MEMORY_BYTES, DISK_BYTES, lines).reason is Reason.EXITED
    assert verdict_on_exit(137, True, MEMORY_BYTES, DISK_BYTES, lines).reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("probe", "sockets", "limited", "reason"),
    [
        (Probe(ProbeFailure.REFUSED), [], False, Reason.PORT_NOT_LISTENING),
        (Probe(ProbeFailure.REFUSED), [("0.0.0.0", 9000)], False, Reason.LISTENS_ON_OTHER_PORT),
        (Probe(ProbeFailure.REFUSED), [("127.0.0.1", 8000)], False, Reason.LISTENS_ON_LOOPBACK_ONLY),
        (Probe(ProbeFailure.REFUSED), [("127.0.0.1", 9000)], False, Reason.LISTENS_ON_LOOPBACK_ONLY),
        (
            Probe(ProbeFailure.REFUSED),
            [("127.0.0.1", 9000), ("0.0.0.0", 9001)],
            False,
            Reason.LISTENS_ON_OTHER_PORT,
        ),
        (Probe(ProbeFailure.STATUS, 404), [("0.0.0.0", 8000)], False, Reason.HEALTH_CHECK_STATUS),
        (Probe(ProbeFailure.TIMEOUT), [("0.0.0.0", 8000)], False, Reason.HEALTH_CHECK_TIMEOUT),
        (Probe(ProbeFailure.REFUSED), [], True, Reason.PIDS_LIMIT),
    ],
)
def test_why_it_is_not_ready(
    probe: Probe, sockets: list[tuple[str, int]], limited: bool, reason: Reason
) -> None:
    listening = tuple(ListeningSocket(address, port) for address, port in sockets)
    assert verdict_while_unready(probe, listening, 8000, "/health", 60, limited).reason is reason


_BIND = "Bind to 0.0.0.0 inside the container"
_SAME_PORT = "listen on port 8080 or set the port to"


@pytest.mark.parametrize(
    ("sockets", "seen", "what_to_do"),
    [
        ([("127.0.0.1", 8000)], "127.0.0.1:8000", f"{_BIND}, and {_SAME_PORT} 8000."),
        (
            [("127.0.0.1", 8000), ("::1", 8001)],
            "127.0.0.1:8000, ::1:8001",
            f"{_BIND}, and {_SAME_PORT} the one it should be reached at.",
        ),
        ([("127.0.0.1", 8080)], "127.0.0.1:8080", f"{_BIND}."),
        (
            [("127.0.0.1", 8001), ("0.0.0.0", 8000)],
            "0.0.0.0:8000, 127.0.0.1:8001",
            f"Either {_SAME_PORT} 8000.",
        ),
    ],
)
def test_what_to_do_leaves_neither_address_nor_port_wrong(
    sockets: list[tuple[str, int]], seen: str, what_to_do: str
) -> None:
    listening = tuple(ListeningSocket(address, port) for address, port in sockets)
    verdict = verdict_while_unready(Probe(ProbeFailure.REFUSED), listening, 8080, "/", 60)
    assert verdict.message == f"Listens on {seen}; expected 0.0.0.0:8080. {what_to_do}"


def test_of_very_many_sockets_a_few_are_named() -> None:
    listening = tuple(ListeningSocket("127.0.0.1", port) for port in range(9000, 9400))
    message = verdict_while_unready(Probe(ProbeFailure.REFUSED), listening, 8000, "/health", 60).message
    assert "127.0.0.1:9004 and 395 more; expected 0.0.0.0:8000" in message
    assert len(message) < 300


def test_a_health_check_that_hangs_says_how_long_it_waited() -> None:
    probe = Probe(ProbeFailure.TIMEOUT, waited_s=5.0)
    assert "within 5 s" in verdict_while_unready(probe, (), 8000, "/health", 60).message


def test_a_kill_that_nobody_explained_names_memory_as_the_likely_cause() -> None:
    verdict = verdict_on_exit(137, False, MEMORY_BYTES, DISK_BYTES)
    assert verdict.reason is Reason.EXITED
    assert "memory ran out" in verdict.message
    assert "memory" not in verdict_on_exit(139, False, MEMORY_BYTES, DISK_BYTES).message
