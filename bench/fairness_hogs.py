"""What a container of one organization can do to take from others: taken up on a signal, and let go of on another."""

import asyncio
import contextlib
import inspect
import shlex
from collections.abc import AsyncIterator

import aiodocker
import aiohttp
from deploy_stack import Stack
from fairness_people import NEVER_READY, Tenant

from moorage.engines.docker.create import name_of

LINES_PER_VALUE, VALUES = 3500, 8
ENVIRONMENT = {
    f"VALUE_{value}": "\n".join(f"{value}{line:07d}" for line in range(LINES_PER_VALUE))
    for value in range(VALUES)
}
"""As large as the limits allow, of many short lines: each is a secret that the log is searched for."""


class Hog:
    """Between `begin` and `end` it attacks; else it does the same work where nobody is hurt by it."""

    def __init__(self, name: str, replica_id: str, docker: aiodocker.Docker) -> None:
        self.name = name
        self._container = docker.containers.container(name_of(replica_id))

    @contextlib.asynccontextmanager
    async def loose(self) -> AsyncIterator[None]:
        await self._container.kill(signal="USR1")
        try:
            yield
        finally:
            await self._container.kill(signal="USR2")


async def deployed_hogs(
    stack: Stack, attacker: Tenant, http: aiohttp.ClientSession, docker: aiodocker.Docker, names: list[str]
) -> dict[str, Hog]:
    hogs = {}
    for name in names:
        environment = ENVIRONMENT if name == "masked logs" else {}
        made = await attacker.deploy(
            http,
            name.replace(" ", "-"),
            start_command=command_of(name),
            health_check=NEVER_READY,
            env=environment,
        )
        hogs[name] = Hog(name, await started(attacker, http, str(made["id"])), docker)
    return hogs


def command_of(name: str) -> str:
    return shlex.join(["python3", "-c", f"{inspect.getsource(_hog)}\n_hog({name!r})"])


async def started(attacker: Tenant, http: aiohttp.ClientSession, container_id: str) -> str:
    """Its replica's id, once its process waits for the signal."""
    async with asyncio.timeout(120):
        while True:
            lines = await attacker.get(http, f"/containers/{container_id}/logs")
            if any(line["text"] == "resting" for line in lines["items"]):  # type: ignore[attr-defined]
                return str(lines["items"][-1]["instance_id"])  # type: ignore[index]
            await asyncio.sleep(0.2)


HOGS = ("masked logs", "inotify instances", "folder trees")


# What follows runs inside the container.


def _hog(name: str) -> None:
    import ctypes
    import os
    import signal
    import time

    loose = False
    sink = os.open("/dev/null", os.O_WRONLY)
    held: list[int] = []
    made: list[int] = []
    near = b"".join(b"%d%06dx" % (number % 8, number) for number in range(2000)) + b"\n"
    libc = ctypes.CDLL(None)

    def change(number: int, _: object) -> None:
        nonlocal loose
        loose = number == signal.SIGUSR1
        while held:
            os.close(held.pop())

    def masked_logs() -> None:
        os.write(1 if loose else sink, near)

    def inotify_instances() -> None:
        found = libc.inotify_init() if loose else os.dup(sink)
        if found >= 0 and len(held) < 500:
            held.append(found)
        else:
            if found >= 0:
                os.close(found)
            time.sleep(0.01)

    def folder_trees() -> None:
        # Wide and deep: what goes through all of it holds a folder open for each level, and takes long.
        top = "/tmp/tree" if loose else "/dev/shm/none"
        number = len(made)
        made.append(number)
        path = f"{top}/{number % 40}" + f"/{number % 7}" * (number % 200)
        try:
            os.makedirs(path) if loose else os.stat(top)
        except OSError:
            time.sleep(0.01)  # there are no more to be had, or there is nothing

    def ignores_its_end() -> None:
        time.sleep(1)

    if name == "ignores its end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, change)
    signal.signal(signal.SIGUSR2, change)
    take = locals()[name.replace(" ", "_")]
    print("resting", flush=True)
    while True:
        take()
