"""A program of its own, started by `diagnose.py`: enters a network namespace, asks, prints the answers as JSON.

Small on purpose, and without anything but the standard library: it stands in a tenant's network. It gives up root
before it sends the first packet.
"""

import asyncio
import ctypes
import json
import os
import sys
from typing import Any

from moorage.engines.docker.dns_message import answer_of, question_for

_CLONE_NEWNET = 0x40000000
_NOBODY = 65534
_DNS_PORT = 53


def main() -> None:
    asked = json.load(sys.stdin)
    _enter(int(asked["namespace"]))
    print(json.dumps(asyncio.run(_answers(asked))))


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        sys.exit(f"the network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


async def _answers(asked: dict[str, Any]) -> dict[str, Any]:
    timeout_s = float(asked["timeout_s"])
    names, attempts = await asyncio.gather(
        asyncio.gather(*(_resolve(name, asked["resolvers"], timeout_s) for name in asked["names"])),
        asyncio.gather(*(_connect(one["address"], one["port"], timeout_s) for one in asked["destinations"])),
    )
    return {"names": names, "attempts": attempts}


async def _connect(address: str, port: int, timeout_s: float) -> dict[str, Any]:
    outcome = "connected"
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
    except TimeoutError:
        outcome = "timed_out"
    except ConnectionRefusedError:
        outcome = "refused"
    except OSError:
        outcome = "unreachable"
    return {"address": address, "port": port, "outcome": outcome}


async def _resolve(name: str, resolvers: list[str], timeout_s: float) -> dict[str, Any]:
    """All resolvers at once: one that answers is enough, as it would be for the replica's own programs."""
    tries = await asyncio.gather(*(_ask(name, resolver, timeout_s) for resolver in resolvers))
    for addresses, _ in tries:
        if addresses:
            return {"name": name, "addresses": addresses, "failure": None}
    failures = dict.fromkeys(failure for _, failure in tries)
    return {
        "name": name,
        "addresses": [],
        "failure": "; ".join(failures) or "no resolver is set up for the replica",
    }


async def _ask(name: str, resolver: str, timeout_s: float) -> tuple[list[str], str]:
    loop = asyncio.get_running_loop()
    identity = int.from_bytes(os.urandom(2))
    answered: asyncio.Future[bytes] = loop.create_future()
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await loop.create_datagram_endpoint(
                lambda: _Reply(answered, identity), remote_addr=(resolver, _DNS_PORT)
            )
            try:
                transport.sendto(question_for(name, identity))
                addresses, failure = answer_of(await answered)
            finally:
                transport.close()
    except TimeoutError:
        return [], f"{resolver} did not answer within {timeout_s:g} s"
    except ConnectionRefusedError:
        return [], f"{resolver} is no resolver: nothing listens there"
    except OSError as exc:
        return [], f"{resolver} cannot be reached ({exc.strerror})"
    return addresses, f"{resolver} says {failure}" if failure else ""


class _Reply(asyncio.DatagramProtocol):
    def __init__(self, answered: "asyncio.Future[bytes]", identity: int) -> None:
        self._answered = answered
        self._identity = identity.to_bytes(2)

    def datagram_received(self, data: bytes, _: object) -> None:
        if data[:2] == self._identity and not self._answered.done():
            self._answered.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(exc)


if __name__ == "__main__":
    main()
