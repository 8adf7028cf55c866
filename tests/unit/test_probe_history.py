from datetime import UTC, datetime, timedelta

from moorage.containers.probe_history import MOST_RUNS, ProbeRun, with_probe
from moorage.containers.verdict import Probe, ProbeFailure

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED, BROKEN = Probe(ProbeFailure.REFUSED), Probe(ProbeFailure.STATUS, 500)


def history(*probes: Probe) -> list[ProbeRun]:
    runs: list[ProbeRun] = []
    for second, probe in enumerate(probes):
        runs = with_probe(runs, "controller", probe, NOW + timedelta(seconds=second))
    return runs


def test_equal_outcomes_in_a_row_are_one_run() -> None:
    first, second, third = history(REFUSED, REFUSED, BROKEN, REFUSED)
    assert (first.count, first.first_at, first.last_at) == (2, NOW, NOW + timedelta(seconds=1))
    assert second.to_json() == {
        "by": "controller",
        "outcome": "status",
        "status": 500,
        "first_at": "2026-01-01T00:00:02+00:00",
        "last_at": "2026-01-01T00:00:02+00:00",
        "count": 1,
    }
    assert third.count == 1


def test_who_asked_tells_runs_apart_and_the_oldest_go() -> None:
    runs = with_probe(history(BROKEN), "gateway", BROKEN, NOW)
    assert [run.by for run in runs] == ["controller", "gateway"]
    many = history(*([REFUSED, BROKEN] * MOST_RUNS))
    assert len(many) == MOST_RUNS
    assert many[-1].last_at == NOW + timedelta(seconds=2 * MOST_RUNS - 1)
