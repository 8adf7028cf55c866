"""The whole story, told as it happens: three machines join, six replicas serve there, and one thing after another goes wrong.

Every line that is printed was counted or measured; whatever is not as promised ends the story with an error.
"""

import time
from collections.abc import Callable
from pathlib import Path

from moorage.kit.settings import Settings
from tests.machines import scenes, serving
from tests.machines.fleet import Fleet, deployed_fleet
from tests.machines.lab import Lab, laboratory
from tests.machines.traffic import Traffic
from tests.machines.wires import BEHIND, NAMES

_LEAST_REQUESTS = 4000
_JOINS_WITHIN_S = 120.0
"""By itself: what is promised for a machine without a GPU. Several at once share this host's processors and its network."""


def tell(base_folder: Path | None) -> None:
    with laboratory(base_folder) as lab:
        fleet = _joined(lab)
        try:
            _serves(fleet)
            counted = sum(len(seen) for seen in _happenings(fleet))
        except BaseException:
            show_what_was_said(lab)
            raise
        assert counted >= _LEAST_REQUESTS, f"only {counted} requests"
        say("in all", f"{counted} requests and streams")
        fleet.chat.delete()
        fleet.until_engines_agree()
        say("afterwards", "nothing is left on any machine")


def _joined(lab: Lab) -> Fleet:
    first, *others = NAMES
    try:
        alone_s = lab.join(first)[first]
        assert alone_s < _JOINS_WITHIN_S, f"{first} took {alone_s:.0f} s to join by itself"
        say("joined by itself", f"{first} {alone_s:.0f} s of the {_JOINS_WITHIN_S:.0f} s that it has")
        took_s = lab.join(*others)
    except BaseException:
        show_what_was_said(lab)
        raise
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took_s.items())
    say("joined, side by side", f"{times} ({BEHIND} behind a router that lets nothing in)")
    lab.close_own_engine()
    began_s = time.monotonic()
    fleet = deployed_fleet(lab, lab.stack.sign_up("ann@example.com"))
    fleet.until_spread(**{name.replace("-", "_"): 2 for name in NAMES})
    say(
        "spread",
        f"{fleet.spread()} after {time.monotonic() - began_s:.0f} s, pulled through the installation's proxy",
    )
    return fleet


def _serves(fleet: Fleet) -> None:
    for title, look in (
        ("answers and logs", serving.each_answers),
        ("figures", serving.figures_are_there),
        ("a failure", serving.a_failure_is_explained),
        ("a full disk", serving.a_disk_has_a_limit),
        ("the doctor", serving.the_doctor_looks_inside),
        ("a restart elsewhere", serving.stops_and_starts_elsewhere),
    ):
        say(title, look(fleet))
    fleet.until_engines_agree()


def _happenings(fleet: Fleet) -> list[Traffic]:
    """Each begins where the one before left the replicas."""
    wires, told = fleet.lab.wires, list[Traffic]()

    def scene(title: str, play: Callable[[], Traffic | tuple[Traffic, float]]) -> None:
        played = play()
        seen, more = (
            (played, "")
            if isinstance(played, Traffic)
            else (played[0], f"; replaced after {played[1]:.1f} s")
        )
        say(title, f"{seen}{more}; now {fleet.spread()}")
        told.append(seen)

    scene("the node role of rack-1 killed", lambda: scenes.node_role_killed(fleet, "rack-1"))
    scene("the controller killed", lambda: scenes.controller_killed(fleet))
    scene("all keys renewed", lambda: scenes.keys_renewed(fleet))
    scene("rack-1 drained, then resumed", lambda: scenes.drained(fleet, "rack-1"))
    scene("rack-2 killed", lambda: scenes.killed(fleet, "rack-2"))
    scene("rack-2 came back", lambda: scenes.came_back(fleet, "rack-2"))
    scene(f"{BEHIND} not heard, then back", lambda: scenes.cut_off(fleet, BEHIND, wires.drops_what_it_sends))
    scene(
        "rack-1 not reached, then back", lambda: scenes.cut_off(fleet, "rack-1", wires.drops_what_it_is_sent)
    )
    return told


def say(title: str, text: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())}  {title}: {text}", flush=True)


def show_what_was_said(lab: Lab) -> None:
    """By everybody, since it is gone with the lab."""
    for log in sorted(Settings(home=lab.stack.home).log_dir.glob("*.log")):
        print(f"== installation, {log.stem}", log.read_text()[-6000:], sep="\n", flush=True)
    for name, machine in lab.machines.items():
        for what, text in machine.said().items():
            print(f"== {name}, {what}", text[-3000:], sep="\n", flush=True)
