"""Machines on one machine: network namespaces made for a test, each with a thread and an event loop that live in it.

Whatever runs in a place sees its network alone, and so do the processes that it starts.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import threading
import uuid
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

_CLONE_NEWNET = 0x40000000
_LIMIT_S = 150.0
T = TypeVar("T")


class Place:
    def __init__(self, word: str) -> None:
        self.name = f"moor-{word}-{uuid.uuid4().hex[:6]}"
        _sh(f"ip netns add {self.name}")
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=self.name)
        self._thread.start()
        self.sh("ip link set lo up")

    def sh(self, command: str) -> str:
        return _sh(f"ip netns exec {self.name} {command}")

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def within_limit() -> T:
            async with asyncio.timeout(_LIMIT_S):
                return await coroutine

        return asyncio.run_coroutine_threadsafe(within_limit(), self.loop).result(_LIMIT_S + 5)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end_tasks(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        _sh(f"ip netns delete {self.name}")

    def _live(self) -> None:
        with open(f"/run/netns/{self.name}") as file:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(file.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    async def _end_tasks(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextlib.contextmanager
def places(*words: str) -> Iterator[dict[str, Place]]:
    made: dict[str, Place] = {}
    try:
        for word in words:
            made[word] = Place(word)
        yield made
    finally:
        for place in made.values():
            place.end()


def connect(left: Place, left_address: str, right: Place, right_address: str) -> None:
    """A cable between two places."""
    cable = uuid.uuid4().hex[:8]
    _sh(f"ip link add a{cable} netns {left.name} type veth peer name b{cable} netns {right.name}")
    for place, link, address in ((left, f"a{cable}", left_address), (right, f"b{cable}", right_address)):
        place.sh(f"ip address add {address} dev {link}")
        place.sh(f"ip link set {link} up")


def forwards(place: Place) -> None:
    place.sh("sysctl -qw net.ipv4.ip_forward=1")


async def answers(address: str, port: int, within_s: float = 1.5) -> bool:
    """Whether somebody listens there and says so."""
    try:
        async with asyncio.timeout(within_s):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def listen(port: int, address: str = "0.0.0.0") -> asyncio.Server:
    """On every address of the place: what is not reached is not for want of a listener."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    return await asyncio.start_server(take, address, port, reuse_address=True)


async def listen_udp(port: int) -> "asyncio.Queue[bytes]":
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    class Hear(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            heard.put_nowait(data)

    await asyncio.get_running_loop().create_datagram_endpoint(Hear, local_addr=("0.0.0.0", port))
    return heard


def tell_udp(address: str, port: int, text: bytes) -> None:
    """Of the place whose thread calls it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, contextlib.suppress(OSError):
        sender.sendto(text, (address, port))


def _sh(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
