"""Ten minutes of a lent machine's life, with people asking all the while: each scene begins where the one before left the replicas.

Slot 0 is on the installation's own machine, because both that are lent are on probation. The other two go wherever the cheaper type has room.
"""

import time
from functools import partial

import httpx

from moorage.engines.docker.create import name_of
from tests.acceptance.stack import parse_sse, until
from tests.machines.community.people import NEIGHBOUR, People
from tests.machines.fleet import Fleet
from tests.machines.scenes import (
    assert_all_well,
    assert_soon_replaced,
    seconds_until_replaced,
    under_load,
    wait_for_more,
)
from tests.machines.traffic import Traffic
from tests.machines.wires import BEHIND

PROMPT = "prompt-canary-5519"
CACHED = "cache-canary-2264"
BANNED = "It offers what it does not have."
_ASKS = 30
_COMPLETIONS = "/api/v1/chat/completions"


def completes(fleet: Fleet) -> str:
    """Plain and streamed, by each of three; by the machine's own log of its replica, that one was asked as well."""
    (replica,) = fleet.on(BEHIND)
    asked = {"model": "chat", "messages": [{"role": "user", "content": PROMPT}]}
    for _ in range(_ASKS):
        plain = fleet.ask(f"{_COMPLETIONS}?plain", asked)
        assert PROMPT in plain.json()["choices"][0]["message"]["content"], plain.text
        streamed = fleet.ask(f"{_COMPLETIONS}?streamed", {**asked, "stream": True})
        words = "".join(one["choices"][0]["delta"].get("content", "") for one in parse_sse(streamed.text))
        assert PROMPT in words
    lines = {kind: f"POST {_COMPLETIONS}?{kind} 200" for kind in ("plain", "streamed")}
    for line in lines.values():
        until(partial(_all_logged, fleet, line), f"the log has {line}", pause_s=0.5)
    counts = {kind: fleet.log_lines(line)[replica] for kind, line in lines.items()}
    assert all(counts.values()), counts
    return f"{counts['plain']} plain and {counts['streamed']} streamed of {_ASKS} each, by {BEHIND}"


def _all_logged(fleet: Fleet, line: str) -> bool:
    return fleet.log_lines(line).total() == _ASKS


def leaves_something(fleet: Fleet, replica: str) -> None:
    """In its cache, as a tenant's program does."""
    attic = fleet.lab.machines[BEHIND]
    attic.run(f"docker exec {name_of(replica)} sh -c 'echo {CACHED} >/var/cache/moorage/left'")
    assert attic.run("docker volume ls --quiet").stdout.split()


def paused(fleet: Fleet, people: People) -> Traffic:
    """What runs there stays, and what has to move meanwhile goes elsewhere: nothing new comes."""
    own, there = fleet.lab.own_engine(), fleet.on(BEHIND)
    with under_load(fleet) as seen:
        people.say(BEHIND, "pause")
        people.say(NEIGHBOUR, "drain")
        until(
            lambda: fleet.spread() == {own: 2, BEHIND: 1}, "the other's went to the operator's", pause_s=0.2
        )
        assert fleet.on(BEHIND) == there
        people.say(NEIGHBOUR, "resume")
        people.say(BEHIND, "resume")
        _until_standing(fleet)
    assert_all_well(seen)
    return seen


def drained(fleet: Fleet, people: People) -> Traffic:
    """Every request is answered, every stream ends as it should, and nothing is left."""
    with under_load(fleet) as seen:
        people.say(BEHIND, "drain")
        until(lambda: _has_moved(fleet, BEHIND), f"{BEHIND} is empty", pause_s=0.2)
        attic = fleet.lab.machines[BEHIND]
        until(lambda: attic.containers() == {}, f"nothing is left on {BEHIND}", pause_s=0.5)
        volumes = lambda: attic.run("docker volume ls --quiet").stdout == ""  # noqa: E731
        until(volumes, "its caches are gone", pause_s=0.5)
    assert_all_well(seen)
    return seen


def resumed(fleet: Fleet, people: People) -> Traffic:
    """It takes the next that comes, here from the other that is lent."""
    with under_load(fleet) as seen:
        people.say(BEHIND, "resume")
        _until_standing(fleet)
        _bring_one(fleet, people)
    assert_all_well(seen)
    return seen


def lost(fleet: Fleet) -> tuple[Traffic, float]:
    """All its processes and its network, in one moment."""
    assert fleet.on(BEHIND), f"nothing runs on {BEHIND}"
    with under_load(fleet) as seen:
        fleet.lab.wires.cut(BEHIND)
        fleet.lab.machines[BEHIND].pull_the_plug()
        replaced_s = seconds_until_replaced(fleet, BEHIND)
        fleet.lab.until_state(BEHIND, "lost")
    assert_soon_replaced(seen, replaced_s)
    return seen, replaced_s


def came_back(fleet: Fleet, people: People) -> Traffic:
    """Switched on again: what its engine remembers is cleared away, nothing is moved there, and the next one comes."""
    before = fleet.routed()
    with under_load(fleet) as seen:
        fleet.lab.wires.mend(BEHIND)
        fleet.lab.machines[BEHIND].boot()
        fleet.lab.until_state(BEHIND, "probation")
        fleet.until_engines_agree()
        assert fleet.routed() == before
        _bring_one(fleet, people)
    assert_all_well(seen)
    return seen


def lives_on(fleet: Fleet, until_s: float) -> Traffic:
    """Nothing happens, but that hours are renewed."""
    before = fleet.routed()
    with under_load(fleet) as seen:
        while time.monotonic() < until_s:
            wait_for_more(seen)
    assert fleet.routed() == before
    assert_all_well(seen)
    return seen


def banned(fleet: Fleet, people: People) -> tuple[Traffic, float]:
    """By the operator. What runs there is cut off at once and replaced; its owner reads why, and lends no other."""
    assert fleet.on(BEHIND), f"nothing runs on {BEHIND}"
    machine_id = fleet.lab.ids[BEHIND]
    with under_load(fleet) as seen:
        with fleet.lab.stack.operator() as operator:
            said = operator.post(f"/operator/machines/{machine_id}/ban", json={"reason": BANNED})
        assert said.status_code == httpx.codes.OK, said.text
        replaced_s = seconds_until_replaced(fleet, BEHIND)
    assert_soon_replaced(seen, replaced_s)
    shown = people.machine(BEHIND)
    assert (shown["state"], BANNED in shown["message"]) == ("banned", True), shown
    owner = people.owners[BEHIND]
    another = owner.api.post(f"/organizations/{owner.organization_id}/machines", json={"name": "cellar"})
    assert another.json().get("code") == "machine_banned", another.text
    held = owner.api.post(f"/machines/{machine_id}/resume")
    assert held.status_code == httpx.codes.CONFLICT, held.text
    return seen, replaced_s


def _bring_one(fleet: Fleet, people: People) -> None:
    """To the machine, by its neighbour's drain."""
    people.say(NEIGHBOUR, "drain")
    until(lambda: _has_moved(fleet, NEIGHBOUR), f"{NEIGHBOUR} is empty", pause_s=0.2)
    people.say(NEIGHBOUR, "resume")
    assert fleet.on(BEHIND), "it went to the cheaper machine"
    _until_standing(fleet)


def _has_moved(fleet: Fleet, name: str) -> bool:
    return fleet.is_complete() and not fleet.on(name)


def _until_standing(fleet: Fleet) -> None:
    """And ready for what comes: the controller has looked at it since."""
    for name in (BEHIND, NEIGHBOUR):
        fleet.lab.until_state(name, "probation")
    until(lambda: _takes_replicas(fleet) == {True}, "both take replicas", pause_s=0.5)


def _takes_replicas(fleet: Fleet) -> set[bool]:
    with fleet.lab.stack.operator() as operator:
        nodes = operator.get("/operator/nodes").json()["items"]
    names = {BEHIND, NEIGHBOUR}
    return {one["intake"] == "open" for one in nodes if fleet.lab.name_of(one["name"]) in names}
