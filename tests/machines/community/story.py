"""Ten minutes of a community machine, told as it happens: a machine behind a router that lets nothing in is lent, proves what it has,
serves from inside a sandbox for somebody who pays, and earns; then it is paused, drained, lost, back, and banned.

Every line that is printed was counted or measured; whatever is not as promised ends the story with an error.
"""

import time
from pathlib import Path

from tests.acceptance.stack import until
from tests.machines.community import books, canaries, reach, scenes
from tests.machines.community.people import (
    CANARIES,
    NEIGHBOUR,
    PAID_MICROUSD,
    PROVEN_BYTES,
    SETTINGS,
    People,
    deploy,
    offer_sizes,
    people_of,
)
from tests.machines.fleet import Fleet
from tests.machines.lab import Lab, laboratory
from tests.machines.story import say, show_what_was_said
from tests.machines.traffic import Traffic
from tests.machines.wires import BEHIND

_LIFE_S = 600.0
_LEAST_REQUESTS = 2000


def tell(base_folder: Path | None) -> None:
    settings = dict(SETTINGS)
    with laboratory(base_folder, (BEHIND, NEIGHBOUR), registry_has_password=True, **settings) as lab:
        try:
            _tell(lab)
        except BaseException:
            show_what_was_said(lab)
            raise


def _tell(lab: Lab) -> None:
    people = people_of(lab)
    _joins(people)
    fleet = _serves(people)
    counted = _lives(fleet, people)
    assert counted >= _LEAST_REQUESTS, f"only {counted} requests"
    say("in all", f"{counted} requests and streams")
    before = books.earned(people, BEHIND)
    until(lambda: books.earned(people, BEHIND).microusd > before.microusd, "its last hour is settled", 600, 5)
    for name in people.owners:
        earned = books.until_earned(people, name)
        assert people.held_microusd(name) >= earned.microusd > 0
        say(f"what {name} earned", str(earned))
    fleet.chat.delete()
    say("the books", books.balanced(fleet))


def _joins(people: People) -> None:
    lab = people.lab
    took_s = people.lend()
    for name, seconds in took_s.items():
        shown = people.machine(name)
        assert (shown["runtime"], shown["tier"]) == ("runsc", "probation"), shown
        assert shown["facts"]["proven"]["memory_bytes"] == PROVEN_BYTES, shown["facts"]
        say(f"{name} lent, joined and proven", f"{seconds:.0f} s; {shown['message']}")
    say("the way in", reach.nobody_gets_in(lab))


def _serves(people: People) -> Fleet:
    offer_sizes(people.lab)
    began_s = time.monotonic()
    fleet = deploy(people)
    own = people.lab.own_engine()
    assert fleet.spread() == {own: 1, **dict.fromkeys(people.owners, 1)}, fleet.spread()
    slots = {row["slot"]: row["node"] for row in fleet.rows() if row["state"] == "routed"}
    assert slots[0] == own, "what is on probation is never the only one"
    say(
        "spread",
        f"{fleet.spread()} after {time.monotonic() - began_s:.0f} s, for {PAID_MICROUSD / 1e6:.0f} USD that were paid",
    )
    (replica,) = fleet.on(BEHIND)
    say("the sandbox", reach.sandbox_of(fleet, replica))
    say("completions", scenes.completes(fleet))
    say("reached by a tenant", reach.nothing_is_reached(fleet, replica))
    scenes.leaves_something(fleet, replica)
    secrets = canaries.secrets_of(people, fleet)
    _nothing_is_there(fleet, secrets)
    say(f"on {BEHIND}, while it serves", f"none of {len(secrets)} secrets of the installation and of others")
    return fleet


def _nothing_is_there(fleet: Fleet, secrets: dict[str, str]) -> None:
    found = canaries.found_on(fleet.lab.machines[BEHIND], secrets)
    assert found == [], found


def _lives(fleet: Fleet, people: People) -> int:
    began_s, told = time.monotonic(), list[Traffic]()

    def scene(title: str, played: Traffic | tuple[Traffic, float]) -> None:
        seen, more = (
            (played, "")
            if isinstance(played, Traffic)
            else (played[0], f"; replaced after {played[1]:.1f} s")
        )
        say(title, f"{seen}{more}; now {fleet.spread()}")
        told.append(seen)

    scene("paused, and resumed", scenes.paused(fleet, people))
    scene("drained", scenes.drained(fleet, people))
    tenants = {"environment": CANARIES["CHAT_NOTE"], "prompt": scenes.PROMPT, "cache": scenes.CACHED}
    _nothing_is_there(fleet, {**canaries.secrets_of(people, fleet), **tenants})
    say(f"on {BEHIND}, once it is empty", "nothing of the tenant's environment, prompts and cache either")
    scene("resumed", scenes.resumed(fleet, people))
    scene("power lost", scenes.lost(fleet))
    scene("came back", scenes.came_back(fleet, people))
    scene("the rest of ten minutes", scenes.lives_on(fleet, began_s + _LIFE_S))
    say("what it earned so far", str(books.until_earned(people, BEHIND)))
    scene("banned", scenes.banned(fleet, people))
    say("its life", f"{time.monotonic() - began_s:.0f} s")
    return sum(len(seen) for seen in told)
