"""What a run has shown, and what it has not."""

from tests.simulation.results import RARE, SEEDS_FOR_RARE, Result, never_happened


def run_of(seeds: int, *happened: str) -> list[Result]:
    counts = dict.fromkeys(happened, 1.0)
    return [Result("0123abc", seed, "fingerprint", 3600.0, 1.0, None, "", counts) for seed in range(seeds)]


def test_a_long_run_without_a_rare_event_shows_nothing_about_it() -> None:
    rest = [name for name in RARE if name != "mail refused"]
    assert never_happened(run_of(SEEDS_FOR_RARE, *rest)) == ["mail refused"]
    assert not never_happened(run_of(SEEDS_FOR_RARE - 1, *rest))
