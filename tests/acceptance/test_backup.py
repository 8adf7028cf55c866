"""A dump by `moor backup`, a new data folder by `moor restore`, and everything goes on; what the operator sees meanwhile."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Deployed, Person, Stack, until


@pytest.fixture
def own_stack(docker_host: str) -> Iterator[Stack]:
    yield from run_stack(docker_host, "23000-24999", MOORAGE_DRAIN_TIMEOUT_S="3")


@pytest.mark.proof
def test_into_a_new_data_folder_and_on(own_stack: Stack, short_folder: Path) -> None:
    person = own_stack.sign_up("ada@example.com")
    chat = person.deploy("chat", env={"MODEL_NAME": "a-value-that-is-sealed"})
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)
    used = until(lambda: usage(chat), "the container's processor and memory are known")
    assert 2**20 < used["memory_bytes"] < 2**30
    assert 0 <= used["cpu_millis"] <= 2000
    parts = until(lambda: all_is_well(own_stack), "every part is well")
    assert parts["backup"]["state"] == "unknown"

    dump = short_folder / "moorage.dump"
    own_stack.moor("backup", str(dump))
    assert health(own_stack)["backup"]["state"] == "ok"
    before = chat.read()
    own_stack.interrupt()

    new = Stack(
        short_folder / "home", own_stack.docker_host, own_stack.replica_ports, settings=own_stack.settings
    )
    try:
        new.home.mkdir()
        new.home.chmod(0o755)
        shutil.copy2(own_stack.home / "secret-keys", new.home / "secret-keys")
        new.moor("restore", str(dump))
        refused = new.moor("restore", str(dump), check=False)
        assert (refused.returncode, "database is not empty" in refused.stderr) == (2, True)
        new.up()
        token = person.api.headers["Authorization"].removeprefix("Bearer ")
        same = Person(new, new.client(token), person.project_id)
        restored = Deployed(same, chat.id, f"http://127.0.0.1:{new.gateway_port}/c/{chat.id}")
        restored.until_state("RUNNING")
        restored.until_answered(key)
        after = restored.read()
        assert (after["name"], after["generation"]) == (before["name"], before["generation"])
        replicas = same.api.get(f"/containers/{chat.id}/replicas").json()["items"]
        assert len(replicas) == 1, "the replica that ran all the time was adopted"
        # Its environment can be read with the keys that were kept apart: a restart needs it.
        restored.do("restart")
        # The gateway of the old folder cannot say that it sends the old replica nothing more: that takes the drain limit.
        until(
            lambda: generation_serves(same.api, chat.id, 2), "the restarted one serves alone", timeout_s=150
        )
        restored.until_answered(key)
        until(lambda: all_is_well(new, but="gateway"), "every part is well again")
    finally:
        if new.process is not None:
            new.interrupt()
        new.clean()
    print("1 container, 1 key, 1 session and all rows went into a new data folder, 0 lost")


def usage(chat: Deployed) -> dict[str, float] | None:
    metrics = chat.owner.api.get(f"/containers/{chat.id}/metrics", params={"step": 1}).json()
    for replica in metrics["replicas"]:
        series = replica["series"]
        known = zip(series.get("cpu_millis", ()), series.get("memory_bytes", ()), strict=False)
        for cpu_millis, memory_bytes in known:
            if cpu_millis is not None:
                return {"cpu_millis": cpu_millis, "memory_bytes": memory_bytes}
    return None


def health(stack: Stack) -> dict[str, dict[str, Any]]:
    with stack.operator() as operator:
        answer = operator.get("/operator/health")
    assert answer.status_code == 200, answer.text
    return {part["name"]: part for part in answer.json()["parts"]}


def all_is_well(stack: Stack, but: str = "disk") -> dict[str, dict[str, Any]] | None:
    """The disk is the machine's own affair; a gateway of the old folder is gone for good."""
    parts = health(stack)
    bad = [
        name
        for name, part in parts.items()
        if part["state"] not in ("ok", "unknown") and not name.startswith(("disk", but))
    ]
    return parts if not bad else None


def generation_serves(api: httpx.Client, container_id: str, generation: int) -> bool:
    rows = api.get(f"/containers/{container_id}/replicas").json()["items"]
    # Nor can it say that it has forgotten the old one, whose row therefore stays.
    live = [row for row in rows if row["state"] not in ("collected", "removed")]
    return [(row["state"], row["generation"]) for row in live] == [("routed", generation)]
