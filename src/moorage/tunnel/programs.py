"""`ip` and `wg`, run with a deadline."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from moorage.kit.errors import MoorageError

SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 20.0


class TunnelError(MoorageError):
    """The tunnel cannot be as it should; the message says why and what helps."""

    code = "tunnel_unusable"


def find_program(name: str) -> str:
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        package = {"ip": "iproute2", "wg": "wireguard-tools"}.get(name, name)
        raise TunnelError(f"{name} is not installed. Run `apt-get install {package}`.")
    return path


async def run(name: str, *arguments: str, reads: int | None = None) -> str:
    """`reads`: a descriptor that the program may read from, as `/proc/self/fd/…`."""
    process = await asyncio.create_subprocess_exec(
        find_program(name),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=() if reads is None else (reads,),
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, errors = await process.communicate()
    except TimeoutError as exc:
        process.kill()
        await process.wait()
        raise TunnelError(f"{name} did not answer within {_TIMEOUT_S:g} s.") from exc
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise TunnelError(f"{name} {arguments[0]} failed: {lines[0] if lines else process.returncode}.")
    return output.decode()


@contextmanager
def secret_in_memory(text: str) -> Iterator[int]:
    """A descriptor from which a program reads what must be neither among its arguments nor in a file."""
    descriptor = os.memfd_create("secret")
    try:
        os.write(descriptor, text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
