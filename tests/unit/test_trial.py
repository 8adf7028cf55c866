"""The steps of settings on trial, as they lie in the container's row."""

from datetime import timedelta

from test_plan import NOW
from test_scaling import IMAGE, on_trial

from moorage.containers import trial
from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy, TrialStep


def test_a_canary_that_is_promoted_begins_to_take_over_then() -> None:
    """What it may wait for is counted from there, however long it was a canary."""
    row = on_trial(Strategy.CANARY)
    row.trial_image = IMAGE
    assert trial.trial_step(row) is TrialStep.CANARY
    later = NOW + timedelta(hours=1)
    trial.promote(row, later)
    rollout = Rollout.from_json(row.rollout)
    assert rollout is not None
    assert (rollout.strategy, rollout.begun_at, rollout.from_generation) == (Strategy.ROLLING, later, 1)
