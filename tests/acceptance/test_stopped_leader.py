"""A second controller beside `moor up`, on the real engine: the first is stopped in the middle of a deployment and comes back."""

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import aiodocker
import asyncpg
import pytest

from moorage.engines.docker.create import LABEL_CONTAINER, LABEL_SLOT
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from tests.acceptance.stack import MOOR, Stack, until

TAKEOVER_S = 20.0


async def holder(stack: Stack) -> str:
    connection = await asyncpg.connect(database_dsn(Settings(home=stack.home)))
    try:
        found: str = await connection.fetchval("SELECT holder FROM leases WHERE name = 'containers'")
        return found
    finally:
        await connection.close()


async def processes_by_slot(stack: Stack, *container_ids: str) -> Counter[tuple[str, str]]:
    docker = aiodocker.Docker(stack.docker_host)
    try:
        found = await docker.containers.list(all="1")
        labels = [one._container["Labels"] for one in found]
        return Counter(
            (one[LABEL_CONTAINER], one[LABEL_SLOT])
            for one in labels
            if one.get(LABEL_CONTAINER) in container_ids
        )
    finally:
        await docker.close()


def another_controller(stack: Stack, log_file: Path) -> subprocess.Popen[bytes]:
    command = [*MOOR, "serve", "--role", "controller"]
    with open(log_file, "wb") as log:
        return subprocess.Popen(command, env=stack.environment, stdout=log, stderr=subprocess.STDOUT)


@pytest.mark.proof
async def test_a_stopped_controller_is_overtaken_and_harms_nothing(own_stack: Stack) -> None:
    person = own_stack.sign_up("ann@example.com")
    stays = person.deploy("stays")
    stays.until_state("RUNNING")
    key = person.key()
    stays.until_answered(key)
    first = own_stack.pid_of("controller")
    log_file = own_stack.home.parent / "second.log"
    second = another_controller(own_stack, log_file)
    try:
        # In the middle of one deployment, which somebody takes back meanwhile, and of a stop.
        taken_back, stopped = person.deploy("taken back"), person.deploy("stopped")
        stopped.until_state("RUNNING")
        stopped.do("stop")
        os.kill(first, signal.SIGSTOP)
        since_s = time.monotonic()
        while not (await holder(own_stack)).endswith(f":{second.pid}"):
            assert time.monotonic() - since_s < TAKEOVER_S, log_file.read_text()[-3000:]
        takeover_s = time.monotonic() - since_s
        taken_back.delete()
        stopped.until_state("STOPPED")
        later = person.deploy("later")
        later.until_state("RUNNING")
        os.kill(first, signal.SIGCONT)
        controller_log = own_stack.home / "log" / "controller.log"
        until(lambda: "lease_lost" in controller_log.read_text(), "it knows that it leads no more")
        assert (await holder(own_stack)).endswith(f":{second.pid}")
        assert own_stack.pid_of("controller") == first, "it lives, and waits for its turn"
        found = await processes_by_slot(own_stack, stays.id, taken_back.id, stopped.id, later.id)
        assert found == {(stays.id, "0"): 1, (later.id, "0"): 1}
        stays.until_answered(key)

        # And back again, this time by a kill.
        second.kill()
        killed_s = time.monotonic()
        while not (await holder(own_stack)).endswith(f":{first}"):
            assert time.monotonic() - killed_s < TAKEOVER_S
        print(
            f"\novertaken {takeover_s:.1f} s after SIGSTOP and {time.monotonic() - killed_s:.1f} s after SIGKILL, on Docker"
        )
        last = person.deploy("last")
        last.until_state("RUNNING")
    finally:
        os.kill(first, signal.SIGCONT)
        second.kill()
        second.wait(timeout=20)
