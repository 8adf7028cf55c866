"""Mistakes about machines that joined."""

from datetime import timedelta

from moorage.containers.planning import life, next_look
from moorage.entrypoints import fleet
from moorage.machines import intakes
from tests.simulation.planted.bug import Bug, Patch, nothing


def _pauses_are_not_heard(patch: Patch) -> None:
    patch(intakes, "_INTAKES", {})


def _drains_are_pauses(patch: Patch) -> None:
    patch(intakes, "_INTAKES", dict.fromkeys(intakes._INTAKES, intakes.Intake.CORDONED))


def _engines_stay(patch: Patch) -> None:
    patch(fleet.Fleet, "_take_engine", nothing)


def _silence_is_waited_for(patch: Patch) -> None:
    """Both ways: what a gateway does not reach is replaced as well, a little later."""
    patch(life, "LOST_AFTER", timedelta(days=1))
    patch(next_look, "LOST_AFTER", timedelta(days=1))
    patch(life, "REPLACE_AFTER", timedelta(days=1))


BUGS: tuple[Bug, ...] = (
    Bug(
        "pauses are not heard",
        ("nothing starts where nothing may",),
        _pauses_are_not_heard,
        needs=("pause a machine", "drain a machine", "scale", "create"),
    ),
    Bug(
        "a drain is a pause",
        ("a drained machine gets empty",),
        _drains_are_pauses,
        needs=("drain a machine", "create"),
    ),
    Bug(
        "whoever is silent is there",
        ("what a lost machine had is replaced",),
        _silence_is_waited_for,
        needs=("a machine loses its power", "a machine is cut off", "create"),
    ),
    Bug(
        "engines of the removed stay",
        ("a machine that left is nobody's",),
        _engines_stay,
        needs=("remove a machine", "a machine leaves"),
    ),
)
