"""kill -9 of every part, during a deployment: it converges, with no orphan and no duplicate."""

import os
import signal
import threading
from collections import Counter

import aiodocker
import httpx
import pytest

from tests.acceptance.stack import Deployed, Person, Stack, processes_of, until


async def engine_containers(stack: Stack, container_id: str) -> list[dict[str, object]]:
    docker = aiodocker.Docker(stack.docker_host)
    try:
        filters = {"label": [f"moorage.container={container_id}"]}
        return [one._container for one in await docker.containers.list(all=1, filters=filters)]
    finally:
        await docker.close()


@pytest.mark.parametrize("victim", ["controller", "api", "gateway", "haproxy", "postgres"])
async def test_a_deployment_survives(person: Person, stack: Stack, victim: str) -> None:
    chat = person.deploy(f"kill {victim}", env={"CHAT_START_DELAY_S": "2"})
    chat.until_state("STARTING")
    killed = stack.kill(victim)
    chat.until_state("RUNNING", timeout_s=90)
    until(lambda: stack.pid_of(victim) != killed, f"the {victim} is there again")
    chat.until_answered(person.key())
    found = await engine_containers(stack, chat.id)
    assert len(found) == 1, "one replica wanted, one there"
    rows = person.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    assert Counter(row["state"] for row in rows) == {"routed": 1}
    assert found[0]["Names"] == [f"/{rows[0]['id']}"]
    chat.delete()
    assert await engine_containers(stack, chat.id) == []


def test_with_everything_of_ours_dead_the_endpoint_answers(own_stack: Stack) -> None:
    person = own_stack.sign_up("ann@example.com")
    chat = person.deploy("alone")
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)
    prober = Prober(chat, key)
    prober.start()

    for process in list(processes_of(own_stack.home)):
        os.kill(process.pid, signal.SIGKILL)
    own_stack.kill("postgres")
    until(lambda: not list(processes_of(own_stack.home)), "every Python process is gone")
    assert own_stack.process is not None
    own_stack.process.wait()
    answered = prober.count
    until(lambda: prober.count > answered + 50, "the endpoint goes on answering")
    assert httpx.get(f"{chat.url}/whoami", timeout=10).status_code == 401, "and goes on asking for a key"

    own_stack.up()
    assert chat.read()["state"] == "RUNNING"
    second = person.deploy("after")
    second.until_state("RUNNING")
    prober.stop()
    assert prober.failures == []
    assert prober.count > 100
    print(f"{prober.count} requests while everything of ours died and came back, 0 failed")


def test_ctrl_c_leaves_containers_running_and_the_next_start_adopts_them(own_stack: Stack) -> None:
    person = own_stack.sign_up("ann@example.com")
    chat = person.deploy("stays")
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)
    before = httpx.get(f"{chat.url}/whoami", headers={"Authorization": f"Bearer {key}"}).json()
    own_stack.interrupt()
    assert "keep running" in own_stack.output_file.read_text()
    with pytest.raises(httpx.ConnectError):
        chat.ask(key)
    own_stack.up()
    chat.until_answered(key)
    after = httpx.get(f"{chat.url}/whoami", headers={"Authorization": f"Bearer {key}"}).json()
    assert after == before, "the very same process"
    until(lambda: chat.read()["state"] == "RUNNING", "it is RUNNING")
    rows = person.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    assert [row["state"] for row in rows] == ["routed"]


class Prober(threading.Thread):
    """Asks the endpoint again and again, and remembers what went wrong."""

    def __init__(self, chat: Deployed, key: str) -> None:
        super().__init__(daemon=True)
        self._chat, self._key = chat, key
        self._stopped = threading.Event()
        self.count = 0
        self.failures: list[str] = []

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._key}"}
        while not self._stopped.wait(0.01):
            try:
                answer = httpx.get(f"{self._chat.url}/whoami", headers=headers, timeout=10)
                if answer.status_code != 200:
                    self.failures.append(answer.text)
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
            self.count += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=20)
