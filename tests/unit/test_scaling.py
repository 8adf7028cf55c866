"""Scaling that is chosen while a draft is being applied."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.containers import trial
from moorage.containers.models import ContainerRow
from moorage.containers.rollout import Rollout
from moorage.containers.scaling import laid_over, put_scaling, same_scaling
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import Strategy

SETTINGS: dict[str, Any] = {
    "image": "local/chat:latest",
    "instance_type": "cpu-small",
    "registry_provider": "local",
    "registry_username": None,
    "environment_names": (),
    "resource_mode": "autoscaling",
    "min_replicas": 1,
    "max_replicas": 4,
}
IMAGE = {"ref": "sha256:1", "digest": "sha256:1", "port": 8000}


def a_row() -> ContainerRow:
    settings = ContainerSettings.from_json(SETTINGS)
    return ContainerRow(
        id="ctr_1", settings=settings.to_json(), secrets=b"old", instance_type="cpu-small", generation=1,
        desired_replicas=3, image_ref="sha256:0", image_digest="sha256:0", port=8000,
    )  # fmt: skip


def on_trial(strategy: Strategy = Strategy.REPLACE, **changes: Any) -> ContainerRow:
    row = a_row()
    settings = ContainerSettings.from_json({**SETTINGS, **changes})
    trial.begin(row, settings, b"new", Rollout(strategy, 2, 1, datetime(2026, 1, 1, tzinfo=UTC)))
    return row


def bounds(row: ContainerRow) -> tuple[int, int]:
    return row.settings["min_replicas"], row.settings["max_replicas"]


def test_what_is_on_trial_scales_as_chosen_last() -> None:
    row = on_trial(port=9000)
    put_scaling(row, {"min_replicas": 2, "max_replicas": 8})
    assert (bounds(row), row.desired_replicas) == ((2, 8), 3)
    row.trial_image = IMAGE
    trial.exchange(row)
    assert (bounds(row), row.desired_replicas, row.settings["port"]) == ((2, 8), 2, 9000)


def test_beside_each_other_as_many_run_as_before() -> None:
    """What serves a load of three replicas is not followed by one."""
    row = on_trial(Strategy.ROLLING, port=9000, max_replicas=2)
    row.trial_image = IMAGE
    trial.exchange(row)
    assert (row.desired_replicas, row.version, row.rollout and row.rollout["from_generation"]) == (2, 2, 1)
    trial.go_back(row)
    assert (row.desired_replicas, row.version, row.rollout) == (2, 1, None)
    assert bounds(row) == (1, 4)


def test_what_is_gone_back_to_scales_as_chosen_last() -> None:
    row = on_trial(port=9000)
    row.trial_image = IMAGE
    trial.exchange(row)
    put_scaling(row, {"min_replicas": 5, "max_replicas": 8})
    trial.go_back(row)
    assert (bounds(row), row.desired_replicas, row.settings["port"]) == ((5, 8), 5, None)


@pytest.mark.parametrize(
    ("sent", "bounds_after"),
    [({"max_replicas": 2}, (2, 2)), ({"min_replicas": 9}, (9, 9)), ({"min_replicas": 4}, (4, 6))],
)
def test_a_bound_that_was_sent_wins_over_one_that_the_draft_had(
    sent: dict[str, int], bounds_after: tuple[int, int]
) -> None:
    row = on_trial(min_replicas=3, max_replicas=6)
    scaled = laid_over(ContainerSettings.from_json(row.trial_settings or {}), sent)
    assert (scaled.min_replicas, scaled.max_replicas) == bounds_after


def test_only_scaling_counts() -> None:
    settings = ContainerSettings.from_json(SETTINGS)
    assert same_scaling(settings, ContainerSettings.from_json({**SETTINGS, "port": 1}))
    assert not same_scaling(settings, laid_over(settings, {"scale_down_delay_s": 1}))
