"""What works on machines that joined just as it does at home: answers, logs, figures, verdicts, limits, stops and moves."""

import re
from functools import partial
from typing import Any

from moorage.engines.docker.create import name_of
from tests.acceptance.stack import parse_sse, until
from tests.machines.fleet import Fleet

_SMALL_DISK = {
    "name": "cpu-nano-small-disk",
    "vcpu_millis": 250,
    "memory_bytes": 2**28,
    "disk_bytes": 2**28,
    "price_per_hour_microusd": 5000,
}
_ONE = {"mode": "general", "instance_type": "cpu-nano"}
_ASKS = 60
_COMPLETIONS = "/api/v1/chat/completions"


def each_answers(fleet: Fleet) -> str:
    """Plain and streamed, through the gateway; each replica's own log says that it was the one that answered."""
    hosts = {fleet.ask("/whoami").json()["hostname"] for _ in range(_ASKS)}
    assert len(hosts) == 6, hosts
    asked: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "Ahoy"}]}
    replicas = set(fleet.routed())
    assert len(replicas) == 6
    for _ in range(_ASKS):
        plain = fleet.ask(f"{_COMPLETIONS}?plain", asked)
        assert "Ahoy" in plain.json()["choices"][0]["message"]["content"]
    for _ in range(_ASKS):
        streamed = fleet.ask(f"{_COMPLETIONS}?streamed", {**asked, "stream": True})
        words = "".join(one["choices"][0]["delta"].get("content", "") for one in parse_sse(streamed.text))
        assert "Ahoy" in words
    for kind in ("plain", "streamed"):
        until(partial(_each_logged, fleet, kind, replicas), f"each has answered {kind}", pause_s=0.5)
    return f"{_ASKS} plain and {_ASKS} streamed chat completions, answered by each of six, each in its replica's log"


def _each_logged(fleet: Fleet, kind: str, replicas: set[str]) -> bool:
    found = fleet.log_lines(f"POST {_COMPLETIONS}?{kind} 200")
    return set(found) == replicas and found.total() == _ASKS


def figures_are_there(fleet: Fleet) -> str:
    replicas = set(fleet.routed())

    def measured() -> set[str]:
        found = fleet.person.api.get(f"/containers/{fleet.chat.id}/metrics").json()["replicas"]
        return {
            one["replica_id"]
            for one in found
            if any(one["series"]["memory_bytes"]) and any(one["series"]["cpu_millis"])
        }

    until(lambda: measured() >= replicas, "processor and memory of all six are measured", pause_s=0.5)
    return "processor and memory of each of six"


def a_failure_is_explained(fleet: Fleet) -> str:
    failing = fleet.person.deploy(
        "failing",
        image=fleet.lab.image,
        registry={"provider": "other"},
        resources=_ONE,
        env={"CHAT_CRASH": "at-start", "CHAT_EXIT_CODE": "3"},
    )
    failed = failing.until_state("FAILED")
    rows = fleet.person.api.get(f"/containers/{failing.id}/replicas").json()["items"]
    assert rows[0]["node"] in fleet.lab.machines, rows
    assert (failed["reason"], rows[0]["exit_code"]) == ("exited", 3), failed
    failing.delete()
    return f"{failed['message']}  (on {rows[0]['node']})"


def a_disk_has_a_limit(fleet: Fleet) -> str:
    with fleet.lab.stack.operator() as operator:
        assert operator.post("/operator/instance-types", json=_SMALL_DISK).status_code == 201
    hog = fleet.person.deploy(
        "hog",
        image=fleet.lab.image,
        registry={"provider": "other"},
        resources={"mode": "general", "instance_type": _SMALL_DISK["name"]},
    )
    hog.until_state("RUNNING")
    (row,) = fleet.person.api.get(f"/containers/{hog.id}/replicas").json()["items"]
    machine = fleet.lab.machines[row["node"]]
    machine.run(
        f"docker exec -d {name_of(row['id'])} /bin/busybox dd if=/dev/zero of=/tmp/much bs=1M count=400"
    )
    ended = hog.until_state("FAILED", "STARTING")
    reason = until(lambda: hog.read()["reason"], "it says why")
    assert reason == "disk_full", ended
    message = str(hog.read()["message"])
    assert re.search(r"wrote \S+ GiB to its disk of 0\.25 GiB", message), message
    hog.delete()
    return f"{message}  (on {row['node']})"


def the_doctor_looks_inside(fleet: Fleet) -> str:
    """Into one of six, on whichever machine that is: what listens, and that nothing of ours is in its reach."""
    path = f"/containers/{fleet.chat.id}/doctor"
    assert fleet.person.api.post(path).status_code == 202

    def answered() -> dict[str, Any] | None:
        found: dict[str, Any] = fleet.person.api.get(path).json()
        return found if found["state"] != "asked" else None

    found = until(answered, "the doctor has looked")
    assert found["state"] == "done", found
    findings = found["findings"]
    assert findings["listening"] == [{"address": "0.0.0.0", "port": 8000}], findings
    assert {one["outcome"] for one in findings["forbidden"]} <= {"timed_out", "unreachable"}, findings
    return f"{len(findings['forbidden'])} addresses out of reach. {found['message']}"


def stops_and_starts_elsewhere(fleet: Fleet) -> str:
    single = fleet.person.deploy(
        "single", image=fleet.lab.image, registry={"provider": "other"}, resources=_ONE
    )
    single.until_state("RUNNING")
    before = _node_of(fleet, single.id)
    answer = fleet.person.api.post(f"/containers/{single.id}/restart", json={"avoid_current_nodes": True})
    assert answer.status_code == 202, answer.text
    until(
        lambda: _node_of(fleet, single.id) not in (None, before), "it serves on another machine", pause_s=0.5
    )
    after = _node_of(fleet, single.id)
    single.until_answered(fleet.key)
    single.do("stop")
    single.until_state("STOPPED")
    single.delete()
    return f"from {before} to {after}, then stopped"


def _node_of(fleet: Fleet, container_id: str) -> str | None:
    rows = fleet.person.api.get(f"/containers/{container_id}/replicas").json()["items"]
    nodes = [row["node"] for row in rows if row["state"] == "routed"]
    return nodes[0] if len(nodes) == 1 else None
