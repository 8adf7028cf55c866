"""Sockets in memory end as the kernel's do."""

import asyncio
from pathlib import Path

from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.pipes import Pipes


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line.upper())
    writer.close()


def served(loop: SimulationLoop, path: Path) -> Process:
    loop.sockets = Pipes(loop)
    server = Process("server", loop)
    loop.run_until_complete(server.spawn(asyncio.start_unix_server(answer, str(path)), "main"))
    return server


def test_what_a_stopped_process_is_told_it_hears_when_it_goes_on(tmp_path: Path) -> None:
    loop = SimulationLoop()
    server = served(loop, tmp_path / "there.sock")

    async def ask() -> tuple[float, bytes]:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "there.sock"))
        server.stop()
        loop.call_later(30, server.go_on)
        writer.write(b"hello\n")
        heard = await reader.readline()
        writer.close()
        return loop.time(), heard

    assert loop.run_until_complete(ask()) == (30.0, b"HELLO\n")
    loop.close()


def test_whoever_speaks_with_one_that_dies_hears_its_end(tmp_path: Path) -> None:
    loop = SimulationLoop()
    server = served(loop, tmp_path / "there.sock")

    async def ask() -> tuple[bytes, str]:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "there.sock"))
        writer.write(b"hello\n")
        server.kill()
        heard = await reader.read()
        writer.close()
        try:
            await asyncio.open_unix_connection(str(tmp_path / "there.sock"))
        except ConnectionRefusedError:
            return heard, "refused"
        return heard, "taken"

    assert loop.run_until_complete(ask()) == (b"", "refused")
    loop.close()
