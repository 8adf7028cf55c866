"""What a canary in a cluster prints, by its own script: a shell that has `nc`, and one that has none that works."""

import os
import shutil
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from moorage.engines.kubernetes.isolation import NOT_ABLE, canary, isolation_from
from tests.packages import static_busybox
from tests.ports import free_port


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """All that the script finds. Its shell is the system's: Debian's busybox would find every program in itself."""
    (tmp_path / "nc").symlink_to(static_busybox())
    return tmp_path


def found(program: str) -> str:
    path = shutil.which(program)
    assert path is not None, f"there is no {program}"
    return path


@contextmanager
def listening() -> Iterator[int]:
    """Something that closes each connection, as a kubelet does with one that says nothing."""
    with socketserver.TCPServer(("127.0.0.1", free_port()), socketserver.BaseRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def printed(programs: Path, targets: list[tuple[str, int]]) -> list[str]:
    spec = canary("image", "node-1", targets)
    assert spec.command is not None
    shell, option, script = spec.command
    script = script.replace(str(spec.port), str(free_port()))  # in its Pod that port is nobody else's
    ran = subprocess.Popen(
        [found(shell), option, script],
        env={"PATH": str(programs)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        return ran.communicate(timeout=30)[0].splitlines()
    finally:
        # What still listens would end with its Pod.
        with suppress(ProcessLookupError):
            os.killpg(ran.pid, signal.SIGKILL)


def test_one_that_reaches_itself_and_nothing_else_shows_isolation(programs: Path) -> None:
    lines = printed(programs, [("127.0.0.1", free_port()), ("127.0.0.1", free_port())])
    assert lines == ["able", "tried"]
    assert isolation_from(lines).closed_because is None


def test_what_it_reaches_it_names(programs: Path) -> None:
    with listening() as port:
        lines = printed(programs, [("127.0.0.1", port), ("127.0.0.1", free_port())])
    assert lines == [f"reached 127.0.0.1 {port}", "able", "tried"]
    assert f"127.0.0.1:{port}" in (isolation_from(lines).closed_because or "")


@pytest.mark.parametrize("nc", [None, "exit 1", 'case "$1" in -w) exit 1;; esac; exec BUSYBOX nc "$@"'])
@pytest.mark.long
def test_one_that_can_try_nothing_shows_nothing(programs: Path, nc: str | None) -> None:
    """No `nc`, one that fails, and one that does not know how to wait for a connection."""
    (programs / "nc").unlink()
    if nc is not None:
        (programs / "nc").write_text(f"#!{found('sh')}\n{nc.replace('BUSYBOX', found('busybox'))}\n")
        (programs / "nc").chmod(0o755)
    lines = printed(programs, [("127.0.0.1", free_port())])
    assert lines == ["tried"]
    assert isolation_from(lines).closed_because == NOT_ABLE
