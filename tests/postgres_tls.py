"""Postgres behind TLS: a front that answers its request for TLS, as providers' proxies do, and a server that does so itself.

The bundled server is built without TLS, so the front runs everywhere; the other one where the system has a Postgres.
"""

import asyncio
import contextlib
import shutil
import signal
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from moorage.kit.home import give_to_service_user, service_user
from tests.certificates import write_certificate
from tests.folders import folder_for_a_database
from tests.ports import free_port

_TLS_REQUEST = struct.pack("!II", 8, 80877103)


def system_postgres() -> Path | None:
    """The folder of its programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@dataclass
class PostgresFront:
    """Speaks TLS to clients and leads them to a Unix socket; a client that asks for none is led there plainly, or refused."""

    leads_to: Path
    context: ssl.SSLContext | None
    plain: bool = True
    port: int = field(default_factory=free_port)
    with_tls: int = 0
    without_tls: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            first = await reader.readexactly(8)
            if first == _TLS_REQUEST and self.context is not None:
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self.context)
                first = await reader.readexactly(8)
                self.with_tls += 1
            elif first == _TLS_REQUEST:
                writer.write(b"N")
                first = await reader.readexactly(8)
                self.without_tls += 1
            elif self.plain:
                self.without_tls += 1
            else:
                writer.close()
                return
            far_reader, far_writer = await asyncio.open_unix_connection(self.leads_to / ".s.PGSQL.5432")
            far_writer.write(first)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


@contextlib.asynccontextmanager
async def postgres_front(
    leads_to: Path,
    certificate: Path | None,
    *,
    clients: Path | None = None,
    plain: bool = True,
    port: int | None = None,
) -> AsyncIterator[PostgresFront]:
    """`clients`: the certificate that they must show."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
    front = PostgresFront(leads_to, context, plain, port or free_port())
    async with await asyncio.start_server(front.serve, "127.0.0.1", front.port):
        yield front


@contextlib.asynccontextmanager
async def postgres_with_tls(programs: Path, password: str) -> AsyncIterator[tuple[int, Path]]:
    """Debian's own, with a role and an empty database `moorage`, at a port that takes nobody without TLS; and its certificate."""
    home = folder_for_a_database()
    give_to_service_user(home)
    certificate, data, port = home / "server.pem", home / "data", free_port()
    write_certificate(certificate, "127.0.0.1")
    certificate.chmod(0o600)
    give_to_service_user(certificate)
    user = service_user()
    options = {"user": user, "group": user, "extra_groups": []} if user else {}
    await asyncio.to_thread(
        subprocess.run,
        [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd="/",
        timeout=120,
        **options,
    )
    (data / "pg_hba.conf").write_text(
        "local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
    )
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": str(home)}
    settings |= {"ssl": "on", "ssl_cert_file": str(certificate), "ssl_key_file": str(certificate)}
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        programs / "postgres", "-D", data, *arguments, stderr=asyncio.subprocess.DEVNULL, cwd="/", **options
    )
    try:
        admin = await _connected(f"postgresql://postgres@/postgres?host={home}&port={port}")
        await admin.execute(f"CREATE ROLE moorage LOGIN PASSWORD '{password}'")
        await admin.execute("CREATE DATABASE moorage OWNER moorage")
        await admin.close()
        yield port, certificate
    finally:
        process.send_signal(signal.SIGINT)  # ends sessions too
        await asyncio.wait_for(process.wait(), 30)
        shutil.rmtree(home)


async def _connected(dsn: str) -> asyncpg.Connection:
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncpg.connect(dsn)
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65536):
            sink.write(part)
            await sink.drain()
    sink.close()
