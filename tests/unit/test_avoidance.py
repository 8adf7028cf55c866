"""How long a deployment stays away from machines."""

from datetime import UTC, datetime, timedelta

import pytest

from moorage.containers.avoidance import AVOID_FOR, Avoidance, avoided_nodes, why_no_other_room

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
AVOIDANCE = Avoidance(4, ("machine-a",), NOW + AVOID_FOR)


@pytest.mark.parametrize(
    ("avoidance", "generation", "serving", "later", "avoided"),
    [
        (None, 4, 3, timedelta(0), ()),
        (AVOIDANCE, 4, 3, timedelta(0), ("machine-a",)),
        (AVOIDANCE, 4, 3, AVOID_FOR - timedelta(seconds=1), ("machine-a",)),
        (AVOIDANCE, 4, 3, AVOID_FOR, ()),  # any machine is better than none
        (AVOIDANCE, 4, 4, timedelta(0), ()),  # it has moved; what comes back may come back anywhere
        (AVOIDANCE, 5, 3, timedelta(0), ()),  # somebody started it again, without a word about machines
    ],
)
def test_avoided(
    avoidance: Avoidance | None, generation: int, serving: int, later: timedelta, avoided: tuple[str, ...]
) -> None:
    found = avoided_nodes(avoidance, generation=generation, serving_generation=serving, now=NOW + later)
    assert found == avoided


def test_json() -> None:
    assert Avoidance.from_json(AVOIDANCE.to_json()) == AVOIDANCE
    assert Avoidance.from_json(None) is None


def test_sentence() -> None:
    said = why_no_other_room("NVIDIA L4", ("machine-a", "machine-b"), NOW)
    assert "NVIDIA L4 on another machine than machine-a, machine-b" in said
    assert "until 12:00 UTC" in said
