"""New settings on trial: the steps of applying a draft, or of going back to a version, as they lie in the container's row.

1. `prepare`: `trial_settings` wait aside while their image is fetched, on each machine that their replicas will go to. Nothing that
   runs is touched, and an image that cannot be had ends the trial here.
2. `stop`: the image is known (`trial_image`), so the old replicas drain and go.
3. `prove`: the settings are exchanged; `fallback` keeps the old ones until the first replica serves, or until the
   attempt has failed and they are put back.

With `rolling` there is no second step: once the image is known the settings are exchanged, and what served before them
serves on beside them (`rollout.from_generation`) until they have proven themselves, or is what is gone back to.

With `canary` the second step is `canary`: the settings stay aside, and replicas of them, of the generation after the
container's, get a share of the requests (`planning/canary_plan.py`). To promote it is to go on as with `rolling`; to abort it, to forget
them. What serves is a container like any other meanwhile: it scales, and what ends of it is replaced.

Each step is one transaction, and the row alone says which one it is.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from moorage.containers.models import ContainerRow
from moorage.containers.rollout import Rollout
from moorage.containers.scaling import within
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import Strategy, TrialStep
from moorage.containers.verdict import Verdict


def trial_step(row: ContainerRow) -> TrialStep | None:
    if row.fallback is not None:
        return TrialStep.PROVE
    if row.trial_settings is None:
        return None
    if row.trial_image is None:
        return TrialStep.PREPARE
    canary = row.rollout is not None and row.rollout["strategy"] == Strategy.CANARY
    return TrialStep.CANARY if canary else TrialStep.STOP


def is_on_trial(row: ContainerRow) -> bool:
    return trial_step(row) is not None


def begin(row: ContainerRow, settings: ContainerSettings, sealed_secrets: bytes, rollout: Rollout) -> None:
    row.trial_settings, row.trial_secrets, row.trial_image = settings.to_json(), sealed_secrets, None
    row.trial_failure = None
    row.rollout = rollout.to_json()


def exchange(row: ContainerRow) -> None:
    """The new settings become the container's, as a new deployment whose image is known already."""
    rollout = Rollout.from_json(row.rollout)
    # One that a version before this began has none.
    rolling = rollout is not None and rollout.strategy is Strategy.ROLLING
    assert row.trial_settings is not None, "a trial that has begun has settings"
    assert row.trial_secrets is not None, "and their secrets"
    assert row.trial_image is not None, "and is here only once its image is known"
    row.fallback = {
        "settings": row.settings,
        "image": image_of(row),
        "desired_replicas": row.desired_replicas,
    }
    row.fallback_secrets = row.secrets
    _put(row, row.trial_settings, row.trial_secrets)
    settings = ContainerSettings.from_json(row.trial_settings)
    if rolling and rollout is not None:
        row.rollout = replace(rollout, from_generation=row.generation).to_json()
        row.desired_replicas = within(settings, row.desired_replicas)
    else:
        row.desired_replicas = settings.min_replicas
    if rollout is not None:
        row.version = rollout.version
    row.generation += 1
    put_image(row, row.trial_image)
    row.trial_settings = row.trial_secrets = row.trial_image = None


def canary_replicas(row: ContainerRow) -> int:
    """That are wanted of its canary, in slots from `FIRST_CANARY_SLOT` on; 0 where it has none."""
    if trial_step(row) is not TrialStep.CANARY:
        return 0
    rollout = Rollout.from_json(row.rollout)
    assert rollout is not None, "a canary has one"
    return rollout.replicas_of_canary(row.desired_replicas)


def canary_generation(row: ContainerRow) -> int:
    return row.generation + 1


def promote(row: ContainerRow, now: datetime) -> None:
    """What is on trial has proven itself: the rest of an update with `rolling`, whose first replicas serve already. It begins
    now: the time that it may wait for room is not over because the canary served for long."""
    rollout = Rollout.from_json(row.rollout)
    assert rollout is not None, "a canary has one"
    rolling = replace(rollout, strategy=Strategy.ROLLING, begun_at=now, watch_s=0.0, share=None)
    row.rollout = rolling.to_json()
    exchange(row)


def cancel(row: ContainerRow) -> None:
    """As if it had not been tried: the settings from before are the container's again."""
    if trial_step(row) is TrialStep.CANARY:
        # Its replicas have that number until they are gone: nothing else may have it.
        row.generation = canary_generation(row)
    if row.fallback is not None:
        assert row.fallback_secrets is not None, "kept together"
        _put(row, row.fallback["settings"], row.fallback_secrets)
        rollout = Rollout.from_json(row.rollout)
        if rollout is not None and rollout.is_beside:
            before = ContainerSettings.from_json(row.fallback["settings"])
            row.desired_replicas = within(before, row.desired_replicas)
        else:
            row.desired_replicas = row.fallback["desired_replicas"]
        if rollout is not None:
            row.version = rollout.from_version
    _forget(row)


def go_back(row: ContainerRow) -> None:
    """The attempt failed: deploy what ran before, the very same image."""
    assert row.fallback is not None, "only what replaced something can go back"
    image = row.fallback["image"]
    cancel(row)
    row.generation += 1
    row.unready_since = None
    put_image(row, image)


def resume(row: ContainerRow) -> int:
    """The restart failed: what served all the time is the deployment again. Which one that was."""
    assert row.serving_image is not None, "only what is known can be started again"
    served = row.serving_generation
    row.generation += 1
    row.resumed_generation = row.generation
    row.unready_since = None
    put_image(row, row.serving_image)
    return served


def note_serving(row: ContainerRow) -> None:
    row.serving_generation, row.serving_image = row.generation, image_of(row)


def failed(row: ContainerRow, verdict: Verdict, now: datetime) -> None:
    row.trial_failure = {
        "reason": verdict.reason,
        "message": verdict.message,
        "fix": verdict.fix and verdict.fix.to_json(),
        "at": now.isoformat(),
    }


def succeed(row: ContainerRow) -> None:
    rollout = Rollout.from_json(row.rollout)
    _forget(row)
    if rollout is None or rollout.of_draft:
        row.draft = row.draft_saved_at = row.draft_saved_by = None


def _forget(row: ContainerRow) -> None:
    row.trial_settings = row.trial_secrets = row.trial_image = None
    row.fallback = row.fallback_secrets = row.rollout = None


def _put(row: ContainerRow, settings: dict[str, Any], sealed_secrets: bytes) -> None:
    row.settings, row.secrets, row.instance_type = settings, sealed_secrets, settings["instance_type"]


def image_of(row: ContainerRow) -> dict[str, Any]:
    return {
        "ref": row.image_ref,
        "digest": row.image_digest,
        "port": row.port,
        "gpu_environment": row.image_gpu_environment,
    }


def put_image(row: ContainerRow, image: dict[str, Any]) -> None:
    row.image_generation = row.generation
    row.image_ref, row.image_digest, row.port = image["ref"], image["digest"], image["port"]
    # An earlier version did not keep it.
    row.image_gpu_environment = image.get("gpu_environment")
