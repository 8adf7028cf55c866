"""From the version before machines could join to this one, while containers run: nobody notices, and nothing new is needed."""

import asyncio
import os
import signal
import subprocess

import aiodocker
import asyncpg
import pytest

from moorage.entrypoints.migrate import migrate
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from tests.acceptance.stack import Deployed, Stack, processes_of, until
from tests.acceptance.test_kill import Prober, engine_containers

BEFORE_MACHINES = "0051"
HOURS_SQL = "SELECT container_id, slot, state, bought_at, expires_at FROM hours ORDER BY bought_at, slot"


@pytest.mark.long
def test_replicas_and_their_hours_outlive_an_upgrade(own_stack: Stack) -> None:
    person = own_stack.sign_up("ann@example.com")
    resources = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 2, "max_replicas": 2}
    chat = person.deploy("through", resources=resources)
    chat.until_state("RUNNING")
    key = person.key()
    until(lambda: len(_routed(chat)) == 2, "both serve")
    chat.until_answered(key)
    processes, hours, replicas = _running(own_stack, chat), _rows(own_stack), _routed(chat)
    prober = Prober(chat, key)
    prober.start()
    try:
        # The old version ends, and leaves its database.
        assert own_stack.process is not None
        own_stack.process.send_signal(signal.SIGSTOP)
        for process in list(processes_of(own_stack.home)):
            os.kill(process.pid, signal.SIGKILL)
        own_stack.process.wait()
        dsn = EmbeddedPostgres(Settings(home=own_stack.home)).dsn
        asyncio.run(migrate(dsn, BEFORE_MACHINES))
        asked = prober.count
        until(lambda: prober.count > asked + 20, "the endpoint is asked meanwhile")
        own_stack.up()
        asked = prober.count
        until(lambda: prober.count > asked + 20, "and after")
    finally:
        prober.stop()
    assert prober.failures == []
    assert chat.read()["state"] == "RUNNING"
    assert (_running(own_stack, chat), _rows(own_stack), _routed(chat)) == (processes, hours, replicas)
    assert list((own_stack.home / "dumps").glob(f"before-{BEFORE_MACHINES}-*.dump")), "there is a way back"

    # One machine alone needs none of what more of them need.
    assert "moorwg" not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert not (own_stack.home / "tunnel-key").exists()
    arguments = [one.arguments for one in processes_of(own_stack.home) if "--role" in one.arguments]
    roles = sorted(one[one.index("--role") + 1] for one in arguments)
    assert roles == ["api", "controller", "gateway"]
    print(
        f"{prober.count} requests through an upgrade, 0 failed; {len(processes)} processes and {len(hours)} hours as before"
    )


def _routed(chat: Deployed) -> list[tuple[str, str]]:
    rows = chat.owner.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    return sorted((row["id"], row["node"]) for row in rows if row["state"] == "routed")


def _running(stack: Stack, chat: Deployed) -> list[tuple[object, int]]:
    async def look() -> list[tuple[object, int]]:
        async with aiodocker.Docker(stack.docker_host) as docker:
            found = await engine_containers(stack, chat.id)
            shown = [await docker.containers.container(str(one["Id"])).show() for one in found]
        return sorted((one["Id"], one["State"]["Pid"]) for one in shown)

    return asyncio.run(look())


def _rows(stack: Stack) -> list[tuple[object, ...]]:
    async def read() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(EmbeddedPostgres(Settings(home=stack.home)).dsn)
        try:
            return [tuple(row) for row in await connection.fetch(HOURS_SQL)]
        finally:
            await connection.close()

    return asyncio.run(read())
