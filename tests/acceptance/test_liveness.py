"""A replica that begins to fail its health checks, on Docker: it rests, the others serve on, and it is replaced."""

import asyncio
import inspect
import shlex
import time
from collections.abc import Awaitable, Callable

import aiodocker
import asyncpg
import pytest

from moorage.engines.docker.create import name_of
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from tests.acceptance.load import Seen, open_loop
from tests.acceptance.stack import PATIENCE_S, Deployed, Person, Stack

THREE = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 3, "max_replicas": 3}
REQUESTS_PER_S = 60


@pytest.mark.long
async def test_a_replica_that_fails_its_checks_rests_and_is_replaced(person: Person, stack: Stack) -> None:
    command = shlex.join(["python3", "-c", f"{inspect.getsource(_serve)}\n_serve()"])
    chat = person.deploy("sick", resources=THREE, start_command=command)
    chat.until_state("RUNNING")
    await until(lambda: has_routed(chat, 3), "three replicas are routed")
    key = person.key()
    chat.until_answered(key)
    sick = (await asyncio.to_thread(routed, chat))[0]
    async with open_loop(chat, key, REQUESTS_PER_S, "/") as seen:
        await until(lambda: answered_by(seen, 3), "all three answer")
        await touch(stack, sick, "/dev/shm/sick")
        fell_sick_s = time.monotonic()
        await until(lambda: says(chat, "health_check_status"), "the container says so")
        rests_after_s = time.monotonic() - fell_sick_s
        assert "answered 503" in chat.read()["message"]
        async with open_loop(chat, key, REQUESTS_PER_S, "/") as meanwhile:
            await until(lambda: sent(meanwhile, 200), "two hundred requests")
        assert len(meanwhile.answered_by) == 2, "the one that fails gets none"
        # A minute of that passes at once.
        await execute(stack, "UPDATE replica_routes SET failing_since = failing_since - interval '1 minute'")
        await execute(stack, "UPDATE containers SET reconcile_at = now() WHERE id = $1", chat.id)
        await until(lambda: is_replaced(chat, sick), "it is replaced")
        await until(lambda: says(chat, None), "all is well again")
    print(
        f"shown {rests_after_s:.1f} s after it began to fail; {len(meanwhile)} requests beside it and "
        f"{seen.outcomes['200']} of {len(seen)} in all were well, its replacement included"
    )
    assert dict(seen.outcomes) == {"200": len(seen)}
    assert dict(meanwhile.outcomes) == {"200": len(meanwhile)}
    chat.delete()


def routed(chat: Deployed) -> list[str]:
    items = chat.owner.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    return [one["id"] for one in items if one["state"] == "routed"]


async def has_routed(chat: Deployed, count: int) -> bool:
    return len(await asyncio.to_thread(routed, chat)) == count


async def is_replaced(chat: Deployed, replica_id: str) -> bool:
    found = await asyncio.to_thread(routed, chat)
    return len(found) == 3 and replica_id not in found


async def says(chat: Deployed, reason: str | None) -> bool:
    found = await asyncio.to_thread(chat.read)
    return (found["state"], found["reason"]) == ("RUNNING", reason)


async def answered_by(seen: Seen, count: int) -> bool:
    return len(seen.answered_by) == count


async def sent(seen: Seen, count: int) -> bool:
    return len(seen) >= count


async def until(condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not await condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.1)


async def touch(stack: Stack, replica_id: str, path: str) -> None:
    """Inside the replica, whose name at the engine is its id."""
    docker = aiodocker.Docker(stack.docker_host)
    try:
        run = await docker.containers.container(name_of(replica_id)).exec(["/bin/busybox", "touch", path])
        async with run.start() as stream:
            await stream.read_out()
        assert (await run.inspect())["ExitCode"] == 0
    finally:
        await docker.close()


async def execute(stack: Stack, statement: str, *arguments: str) -> None:
    connection = await asyncpg.connect(database_dsn(Settings(home=stack.home)))
    try:
        await connection.execute(statement, *arguments)
    finally:
        await connection.close()


# What follows runs inside the container.


def _serve() -> None:
    import os
    import socket
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sick = self.path == "/health" and os.path.exists("/dev/shm/sick")
            body = socket.gethostname().encode()
            self.send_response(503 if sick else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
