"""kill -9 of every part, during a deployment: it converges, with no orphan and no duplicate."""

import os
import signal
import threading
import time
from collections import Counter

import aiodocker
import httpx
import pytest

from moorage.engines.docker.create import name_of
from tests.acceptance.stack import Deployed, Person, Stack, processes_of, until

POSTGRES_IS_AWAY_S = 60


async def engine_containers(stack: Stack, container_id: str) -> list[dict[str, object]]:
    docker = aiodocker.Docker(stack.docker_host)
    try:
        filters = {"label": [f"moorage.container={container_id}"]}
        return [one._container for one in await docker.containers.list(all=1, filters=filters)]
    finally:
        await docker.close()


@pytest.mark.parametrize("victim", ["controller", "api", "gateway", "haproxy", "postgres"])
@pytest.mark.long
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
    assert found[0]["Names"] == [f"/{name_of(rows[0]['id'])}"]
    chat.delete()
    assert await engine_containers(stack, chat.id) == []


@pytest.mark.proof
def test_with_everything_of_ours_dead_the_endpoint_answers(own_stack: Stack) -> None:
    person = own_stack.sign_up("ann@example.com")
    chat = person.deploy("alone")
    chat.until_state("RUNNING")
    key, revoked_meanwhile, revoked_after = (person.key() for _ in range(3))
    for each in (key, revoked_meanwhile, revoked_after):
        chat.until_answered(each)
    prober = Prober(chat, key)
    prober.start()

    # The API is the last to go, so that it takes a revocation of which no gateway hears. Their supervisor would start
    # the gateway's agent again.
    assert own_stack.process is not None
    own_stack.process.send_signal(signal.SIGSTOP)
    own_stack.kill("gateway")
    revoke(person, revoked_meanwhile)
    for process in list(processes_of(own_stack.home)):
        os.kill(process.pid, signal.SIGKILL)
    own_stack.kill("postgres")
    own_stack.process.wait()
    until(lambda: not list(processes_of(own_stack.home)), "every Python process is gone")
    dead_since_s, answered = time.monotonic(), prober.count
    until(lambda: time.monotonic() > dead_since_s + POSTGRES_IS_AWAY_S, "a minute passes", timeout_s=90)
    assert prober.count > answered + POSTGRES_IS_AWAY_S, "the endpoint goes on answering"
    assert chat.ask("moor_wrong").status_code == 401, "and goes on asking for a key"
    assert chat.ask(revoked_meanwhile).status_code == 200, "and knows what it knew"

    own_stack.up()
    meanwhile_s = until_refused(chat, revoked_meanwhile)
    assert chat.read()["state"] == "RUNNING"
    revoke(person, revoked_after)
    after_s = until_refused(chat, revoked_after)
    person.deploy("after").until_state("RUNNING")
    prober.stop()
    print(
        f"\n{prober.count} requests while everything of ours died, Postgres was away for {POSTGRES_IS_AWAY_S} s and all "
        f"came back: {len(prober.failures)} failed; a key revoked meanwhile was refused {meanwhile_s:.2f} s after "
        f"recovery, one revoked afterwards {after_s:.2f} s after its revocation"
    )
    assert prober.failures == []


def until_refused(chat: Deployed, key: str) -> float:
    began_s = time.monotonic()
    until(lambda: chat.ask(key).status_code == 401, "the revoked key is refused", timeout_s=5)
    return time.monotonic() - began_s


def revoke(person: Person, key: str) -> None:
    keys = person.api.get(f"/projects/{person.project_id}/api-keys").json()["items"]
    key_id = next(one["id"] for one in keys if key.endswith(one["hint"]))
    assert person.api.delete(f"/api-keys/{key_id}").is_success


@pytest.mark.long
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
        # A connection for each request: one that was kept could hide a gateway that takes no new ones.
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(headers=headers, limits=limits, timeout=10) as client:
            while not self._stopped.wait(0.01):
                try:
                    answer = client.get(f"{self._chat.url}/whoami")
                    if answer.status_code != 200:
                        self.failures.append(answer.text)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                self.count += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=20)
