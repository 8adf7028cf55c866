"""An https:// address in front of an API that speaks plain HTTP on loopback, as a proxy of the operator's would be."""

import asyncio
import contextlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.certificates import write_certificate
from tests.folders import folder_for_a_database
from tests.ports import free_port


@dataclass
class TlsFront:
    address: str
    certificate: Path
    """With its key; signed by nobody else."""
    port: int = field(default_factory=free_port)
    leads_to: int | None = None
    """A port on loopback, once it is known."""

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    async def listen(self) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate)
        await asyncio.start_server(self._pass_on, "0.0.0.0", self.port, ssl=context)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.leads_to)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


@contextlib.contextmanager
def tls_front(address: str) -> Iterator[TlsFront]:
    folder = folder_for_a_database()
    front = TlsFront(address, folder / "certificate.pem")
    write_certificate(front.certificate, address)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(front.listen(), loop).result(10)
        yield front
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        shutil.rmtree(folder)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65536):
            sink.write(part)
            await sink.drain()
    sink.close()
