"""What happens to machines while people ask: each scene under load, with the machine's replicas and the money looked at afterwards."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from tests.acceptance.stack import processes_of, until
from tests.machines.fleet import Fleet
from tests.machines.traffic import Traffic, traffic

REPLACED_WITHIN_S = 30.0
_MORE = 150
"""Requests that have to come after something happened, until it is believed that nothing came of it."""


@contextmanager
def under_load(fleet: Fleet) -> Iterator[Traffic]:
    with traffic(fleet.chat, fleet.key, fleet.requests_per_s) as seen:
        wait_for_more(seen)
        yield seen
        wait_for_more(seen)


def wait_for_more(seen: Traffic) -> None:
    begun = len(seen)
    until(lambda: len(seen) >= begun + _MORE, f"{_MORE} more requests")


def node_role_killed(fleet: Fleet, name: str) -> Traffic:
    """Long enough to count as lost; the gateway still reaches what runs there, so that serves on and nothing is replaced."""
    before, machine = fleet.routed(), fleet.lab.machines[name]
    with under_load(fleet) as seen:
        machine.kill("node")
        fleet.lab.until_state(name, "lost")
        wait_for_more(seen)
        assert fleet.routed() == before
        machine.start("node", machine.services["node"])
        fleet.lab.until_state(name, "active")
    assert fleet.routed() == before
    assert_all_well(seen)
    return seen


def controller_killed(fleet: Fleet) -> Traffic:
    before = fleet.routed()
    with under_load(fleet) as seen:
        killed = fleet.lab.stack.kill("controller")
        until(lambda: _other_controller(fleet, killed), "another controller is there")
        _until_heard(fleet, *fleet.lab.machines)
    assert fleet.routed() == before
    assert_all_well(seen)
    return seen


def _other_controller(fleet: Fleet, killed: int) -> bool:
    found = [one.pid for one in processes_of(fleet.lab.stack.home) if "controller" in one.arguments]
    return found not in ([], [killed])


def _until_heard(fleet: Fleet, *names: str) -> None:
    """Whoever leads now has heard from each of them."""
    noted = {name: fleet.lab.row(name)["seen_at"] for name in names}
    for name in names:
        until(partial(_heard_after, fleet, name, noted[name]), f"{name} answers", pause_s=0.25)


def _heard_after(fleet: Fleet, name: str, noted: str) -> bool:
    return str(fleet.lab.row(name)["seen_at"]) > noted


def keys_renewed(fleet: Fleet) -> Traffic:
    """Of every machine, one after the other."""
    before = fleet.routed()
    with under_load(fleet) as seen:
        for name, machine in fleet.lab.machines.items():
            old = _public_key(fleet, name)
            machine.run("moor-node renew-key")
            assert _public_key(fleet, name) != old
            _until_heard(fleet, name)
    assert fleet.routed() == before
    assert_all_well(seen)
    return seen


def drained(fleet: Fleet, name: str) -> Traffic:
    """Every request is answered, and every stream ends as it should."""
    hours = fleet.hours_bought()
    with under_load(fleet) as seen:
        fleet.lab.say(name, "drain")
        until(lambda: not fleet.on(name) and fleet.is_complete(), f"{name} is empty", pause_s=0.2)
        until(lambda: fleet.lab.machines[name].containers() == {}, f"nothing is left on {name}", pause_s=0.5)
        fleet.lab.say(name, "resume")
        fleet.lab.until_state(name, "active")
    assert fleet.hours_bought() == hours, "a slot's hour is charged once, wherever it is served"
    assert_all_well(seen)
    return seen


def killed(fleet: Fleet, name: str) -> tuple[Traffic, float]:
    """All its processes and its network, in one moment. Returns also how many seconds later six serve again."""
    hours, machine = fleet.hours_bought(), fleet.lab.machines[name]
    assert fleet.on(name), f"nothing runs on {name}"
    with under_load(fleet) as seen:
        fleet.lab.wires.cut(name)
        machine.pull_the_plug()
        replaced_s = seconds_until_replaced(fleet, name)
        fleet.lab.until_state(name, "lost")
    assert fleet.hours_bought() == hours, "a slot's hour is charged once, although its replica was lost"
    assert_soon_replaced(seen, replaced_s)
    return seen, replaced_s


def came_back(fleet: Fleet, name: str) -> Traffic:
    """Switched on again: what its engine remembers of the time before is cleared away, and nothing is moved to it."""
    before = fleet.routed()
    with under_load(fleet) as seen:
        fleet.lab.wires.mend(name)
        fleet.lab.machines[name].boot()
        fleet.lab.until_state(name, "active")
        fleet.until_engines_agree()
    assert fleet.routed() == before
    assert_all_well(seen)
    return seen


def cut_off(
    fleet: Fleet, name: str, cut: Callable[[str], AbstractContextManager[None]]
) -> tuple[Traffic, float]:
    """In one direction, until others serve in its place; then back, with all that ran on there."""
    hours, replicas = fleet.hours_bought(), fleet.on(name)
    assert replicas, f"nothing runs on {name}"
    with under_load(fleet) as seen:
        with cut(name):
            replaced_s = seconds_until_replaced(fleet, name)
            fleet.lab.until_state(name, "lost")
            assert len(fleet.lab.machines[name].containers()) == len(replicas), "they run on, unreached"
        fleet.lab.until_state(name, "active")
        fleet.until_engines_agree()
    assert replicas.isdisjoint(fleet.routed())
    assert fleet.hours_bought() == hours, "a slot's hour is charged once"
    assert_soon_replaced(seen, replaced_s)
    return seen, replaced_s


def seconds_until_replaced(fleet: Fleet, name: str) -> float:
    began_s = time.monotonic()
    until(lambda: not fleet.on(name) and fleet.is_complete(), "others have taken over", pause_s=0.2)
    return time.monotonic() - began_s


def assert_soon_replaced(seen: Traffic, replaced_s: float) -> None:
    """What had a first byte is lost with the machine: streams that were under way are counted, and no more."""
    assert seen.failed == 0, str(seen)
    assert seen.streams["refused"] == 0, str(seen)
    assert replaced_s <= REPLACED_WITHIN_S, f"replaced after {replaced_s:.1f} s"


def _public_key(fleet: Fleet, name: str) -> str:
    shown = fleet.lab.machines[name].run("wg show all public-key").stdout
    found = re.search(r"\S+\s+(\S{44})", shown)
    assert found is not None, shown
    return found[1]


def assert_all_well(seen: Traffic) -> None:
    assert seen.failed == 0, str(seen)
    assert seen.streams["whole"] == seen.streams.total(), str(seen)
