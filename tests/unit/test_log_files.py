"""Logs of Moorage's own parts have an end, and are nobody else's."""

import asyncio
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moorage.entrypoints.health_parts import State, log_files_part
from moorage.kit.clock import VirtualClock
from moorage.kit.daemon import Daemon
from moorage.kit.log_files import LogFiles, end_full_log_files, keep_log_files, measured, open_log_file

LIMIT = 10_000


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_full_one_is_kept_once_and_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "postgres.log"
    writer = open_log_file(path)
    for round_number in range(3):
        os.write(writer, f"first of {round_number}\n".encode())
        os.write(writer, b"x" * LIMIT + b"\n")
        os.write(writer, f"last of {round_number}\n".encode())
        assert end_full_log_files(tmp_path, LIMIT) == [path]
        assert path.stat().st_size == 0
        kept = (tmp_path / "postgres.log.1").read_text()
        assert kept.endswith(f"last of {round_number}\n")
        assert len(kept) == LIMIT, "the newest part of it"
    os.write(writer, b"and on\n")
    assert path.read_text() == "and on\n"
    assert end_full_log_files(tmp_path, LIMIT) == []
    assert mode_of(tmp_path / "postgres.log.1") == 0o600
    assert measured(tmp_path) == LogFiles(files=2, bytes=LIMIT + 7, largest_bytes=LIMIT)
    os.close(writer)


def test_of_several_that_look_after_it_one_does(tmp_path: Path) -> None:
    (tmp_path / "haproxy.log").write_bytes(b"y" * (LIMIT + 1))
    with ThreadPoolExecutor(8) as threads:
        ended = list(threads.map(lambda _: end_full_log_files(tmp_path, LIMIT), range(8)))
    assert sum(map(len, ended)) == 1
    assert (tmp_path / "haproxy.log.1").read_bytes() == b"y" * LIMIT


def test_what_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    old = tmp_path / "dockerd.log"
    old.write_text("from an earlier version\n")
    old.chmod(0o644)
    end_full_log_files(tmp_path, LIMIT)
    assert mode_of(old) == 0o600


async def test_a_daemon_writes_to_a_file_of_its_own(tmp_path: Path) -> None:
    daemon = Daemon("echo", tmp_path)
    program = shutil.which("echo")
    assert program is not None
    daemon.spawn([program, "hello"], log_file=tmp_path / "log" / "echo.log", umask=0o022)
    for _ in range(1000):
        if daemon.running_pid() is None:
            break
        await asyncio.sleep(0.01)
    assert (tmp_path / "log" / "echo.log").read_text() == "hello\n"
    assert mode_of(tmp_path / "log" / "echo.log") == 0o600


async def test_they_are_looked_after_for_ever(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "api.log"
    keeping = asyncio.create_task(keep_log_files(tmp_path, LIMIT, clock))
    for _ in range(2):
        path.write_bytes(b"z" * (LIMIT + 1))
        async with asyncio.timeout(10):
            while path.stat().st_size > 0:
                await clock.advance(1.0)
                await asyncio.sleep(0.01)
    keeping.cancel()


@pytest.mark.parametrize(("largest_bytes", "state"), [(LIMIT, State.OK), (3 * LIMIT, State.WARNING)])
def test_the_operator_sees_how_much_there_is(largest_bytes: int, state: State) -> None:
    part = log_files_part(LogFiles(3, 5 * 2**20, largest_bytes), LIMIT)
    assert part.state is state
    assert part.message.startswith("5.0 MiB in 3 file(s)")
