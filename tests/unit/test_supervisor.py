"""What keeps the roles and the daemons running does so whatever goes wrong on the way."""

import asyncio
from pathlib import Path

from moorage.entrypoints.supervisor import RoleProcess, SupervisedDaemon, keep_daemons
from moorage.kit.clock import system_clock

DEADLINE_S = 30.0


async def test_a_role_that_cannot_even_be_started_is_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "log"
    folder.touch()  # No log can be written there, as on a disk that is full.
    role = RoleProcess("nothing", folder, {"MOORAGE_HOME": str(tmp_path)}, said.append)
    running = asyncio.create_task(role.run())
    try:
        await until_said(said, "The nothing could not be started: ", running)
        folder.unlink()
        await until_said(said, "The nothing ended (exit code 2)", running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_daemon_that_cannot_be_looked_at_is_looked_at_again() -> None:
    said: list[str] = []
    looks = 0

    def alive() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise PermissionError("the pid file cannot be read")
        return False

    async def start() -> None:
        said.append("started")

    keeping = asyncio.create_task(keep_daemons([SupervisedDaemon("The database", alive, start)], said.append))
    try:
        await until_said(said, "started", keeping)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert "the pid file cannot be read" in said[0]


async def until_said(said: list[str], text: str, running: asyncio.Task[None]) -> None:
    deadline_s = system_clock.monotonic() + DEADLINE_S
    while not any(text in line for line in said):
        assert system_clock.monotonic() < deadline_s, said
        if running.done():
            await running
        await asyncio.sleep(0.02)
