"""What a backup leaves that was killed, and who finds it."""

import asyncio
import os
from pathlib import Path

import pytest

from moorage.entrypoints.backup import _run_at, backup
from moorage.entrypoints.migrate import KEPT_DUMPS, remove_old_dumps
from moorage.kit.dsn import parse_dsn
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings


async def test_what_keeps_a_backup_from_being_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.dump.new").write_text("half")
    for file, words in (
        (tmp_path / "mine.dump", "broken off. Remove it"),
        (tmp_path / "absent/mine.dump", "Cannot write"),
    ):
        with pytest.raises(SetupError, match=words):
            await backup(Settings(home=tmp_path), file)
    assert (tmp_path / "mine.dump.new").read_text() == "half", "it may be somebody's"


def test_half_a_dump_goes_with_the_old_ones(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"before-{number}.dump").touch()
    (tmp_path / "before-upgrade-5.dump.new").touch()
    (tmp_path / "mine.dump.new").touch()
    remove_old_dumps(tmp_path)
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == KEPT_DUMPS + 1
    assert "mine.dump.new" in left


async def test_who_is_broken_off_leaves_nobody_behind(tmp_path: Path) -> None:
    """It would read every table to the end, and keep an upgrade from changing them."""
    program = tmp_path / "pg_dump"
    program.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new\nmv {tmp_path}/pid.new {tmp_path}/pid\nexec sleep 60\n"
    )
    program.chmod(0o755)
    dumping = asyncio.create_task(_run_at(parse_dsn("postgresql://nobody@nowhere/nothing"), None, program))
    pid = tmp_path / "pid"
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(pid.exists):
            assert not dumping.done(), dumping
    dumping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dumping
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
