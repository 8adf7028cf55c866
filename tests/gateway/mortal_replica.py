"""A replica that is a process of its own, so that it can be killed. As a program: `python mortal_replica.py ADDRESS PORT`."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

_WITHIN_S = 15.0
PIECES = 3
_TAKES_NO_MORE = signal.SIGUSR1
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@dataclass
class MortalReplica:
    address: str
    port: int
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        program = [sys.executable, __file__, self.address, str(self.port)]
        self.process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        assert self.process.stdout is not None
        async with asyncio.timeout(_WITHIN_S):
            assert await self.process.stdout.readline() == b"listens\n"

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        self.process = None

    async def take_no_more(self) -> None:
        """It closes its port and goes on with what it has, as servers do that were asked to end."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(_TAKES_NO_MORE)
        async with asyncio.timeout(_WITHIN_S):
            assert await self.process.stdout.readline() == b"closed\n"


@contextlib.asynccontextmanager
async def mortal_replica(address: str, port: int) -> AsyncIterator[MortalReplica]:
    replica = MortalReplica(address, port)
    await replica.start()
    try:
        yield replica
    finally:
        if replica.process is not None:
            await replica.kill()


async def _serve(address: str, port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
                length = int(headers.get("content-length", 0))
                await reader.readexactly(length)
                await _say(writer, head[0].split(" ")[1], length)
        writer.close()

    server = await asyncio.start_server(answer, address, port, backlog=512)

    def take_no_more() -> None:
        server.close()
        print("closed", flush=True)

    asyncio.get_running_loop().add_signal_handler(_TAKES_NO_MORE, take_no_more)
    print("listens", flush=True)
    await asyncio.Event().wait()


async def _say(writer: asyncio.StreamWriter, path: str, length: int) -> None:
    """How much it was sent; a stream says it several times, with pauses."""
    said = b"%d\n" % length
    if path.endswith("/stream"):
        writer.write(_ANSWER + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(PIECES):
            writer.write(b"%x\r\n%s\r\n" % (len(said), said))
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.write(b"0\r\n\r\n")
    else:
        writer.write(_ANSWER + b"Content-Length: %d\r\n\r\n%s" % (len(said), said))
    await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
