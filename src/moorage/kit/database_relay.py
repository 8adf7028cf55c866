"""A Unix socket that leads to a database behind TLS, for programs that speak none.

The bundled pg_dump and pg_restore are built without TLS, and those of the system may be older than the server, which they refuse
to dump. So they speak plainly to a socket in a folder that nobody else may enter, and this process speaks TLS to the server, by
the same rules as everywhere else.
"""

import asyncio
import contextlib
import shutil
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from moorage.kit.database import connect
from moorage.kit.dsn import Dsn, tls_context

PORT = 5432
"""Part of the socket's name, as libpq wants it."""
_TLS_REQUEST = struct.pack("!II", 8, 80877103)
_OFFERS_SASL = struct.pack("!I", 10)
_DIAL_WITHIN_S = 10
_CHUNK = 2**16


@contextlib.asynccontextmanager
async def relay_to(dsn: Dsn) -> AsyncIterator[Path]:
    """The folder of the socket."""
    host, port = await _server_to_use(dsn)
    folder = Path(tempfile.mkdtemp(prefix="moorage-"))

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_DIAL_WITHIN_S):
                far_reader, far_writer = await _dial(dsn, host, port)
        except (OSError, TimeoutError):
            writer.close()  # the program says that it lost the server
            return
        await asyncio.gather(_copy(reader, far_writer), _copy_answers(far_reader, writer))

    try:
        server = await asyncio.start_unix_server(lead, folder / f".s.PGSQL.{PORT}")
        async with server:
            yield folder
    finally:
        shutil.rmtree(folder)


async def _server_to_use(dsn: Dsn) -> tuple[str, int]:
    """The first that lets us in and is what the address asks for; whatever is wrong with all of them is said here, before a
    program stumbles over it."""
    failure: Exception | None = None
    for place in dsn.hosts:
        one = Dsn(dsn.user, dsn.password, dsn.database, (place,), dsn.parameters)
        try:
            connection = await connect(one.text(), timeout=_DIAL_WITHIN_S)
        except Exception as exc:  # noqa: BLE001 - another may be better; the last reason is raised
            failure = exc
            continue
        await connection.close()
        return place
    assert failure is not None, "an address that may use TLS names a host"
    raise failure


async def _dial(dsn: Dsn, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    context = tls_context(dsn)
    if dsn.parameters.get("sslnegotiation") == "direct":
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, address in found:
        # The socket itself is read, one byte and no more: what somebody slipped in behind the answer is then taken for
        # TLS and refused, not for words of the server.
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
            await loop.sock_sendall(sock, _TLS_REQUEST)
            speaks_tls = await loop.sock_recv(sock, 1) == b"S"
            return await _go_on(dsn, sock, context if speaks_tls else None, host)
        except OSError as exc:
            sock.close()
            failure = exc
    raise failure or OSError(f"{host} has no address")


async def _go_on(
    dsn: Dsn, sock: socket.socket, context: ssl.SSLContext | None, host: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if context is None:
        if dsn.never_plain:
            raise ConnectionError(f"{host} speaks no TLS")
        return await asyncio.open_connection(sock=sock)
    return await asyncio.open_connection(sock=sock, ssl=context, server_hostname=host)


async def _copy_answers(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """The server offers to bind the sign-in to its TLS channel, which the program takes for an attack, having none: what is
    offered goes on without that. asyncpg does not take it up either."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        kind = b""
        while kind not in (b"R", b"E"):
            kind = await source.readexactly(1)
            (length,) = struct.unpack("!I", await source.readexactly(4))
            body = await source.readexactly(length - 4)
            if kind == b"R" and body.startswith(_OFFERS_SASL):
                body = body.replace(b"SCRAM-SHA-256-PLUS\0", b"")
            sink.write(kind + struct.pack("!I", len(body) + 4) + body)
        await sink.drain()
    await _copy(source, sink)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(_CHUNK):
            sink.write(part)
            await sink.drain()
    sink.close()
