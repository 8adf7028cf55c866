"""New settings on trial: the steps of applying a draft, as they lie in the container's row.

1. `prepare`: `trial_settings` wait aside while their image is fetched. Nothing that runs is touched, and an image
   that cannot be had ends the trial here.
2. `stop`: the image is known (`trial_image`), so the old replicas drain and go.
3. `prove`: the settings are exchanged; `fallback` keeps the old ones until the first replica serves, or until the
   attempt has failed and they are put back.

Each step is one transaction, and the row alone says which one it is.
"""

from datetime import datetime
from typing import Any

from moorage.containers.models import ContainerRow
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import TrialStep
from moorage.containers.verdict import Verdict


def trial_step(row: ContainerRow) -> TrialStep | None:
    if row.fallback is not None:
        return TrialStep.PROVE
    if row.trial_settings is None:
        return None
    return TrialStep.PREPARE if row.trial_image is None else TrialStep.STOP


def is_on_trial(row: ContainerRow) -> bool:
    return trial_step(row) is not None


def begin(row: ContainerRow, settings: ContainerSettings, sealed_secrets: bytes) -> None:
    row.trial_settings, row.trial_secrets, row.trial_image = settings.to_json(), sealed_secrets, None
    row.trial_failure = None


def exchange(row: ContainerRow) -> None:
    """The new settings become the container's, as a new deployment whose image is known already."""
    assert row.trial_settings is not None, "a trial that has begun has settings"
    assert row.trial_secrets is not None, "and their secrets"
    assert row.trial_image is not None, "and is here only once its image is known"
    row.fallback = {"settings": row.settings, "image": _image(row), "desired_replicas": row.desired_replicas}
    row.fallback_secrets = row.secrets
    _put(row, row.trial_settings, row.trial_secrets)
    row.desired_replicas = ContainerSettings.from_json(row.trial_settings).min_replicas
    row.generation += 1
    _put_image(row, row.trial_image)
    row.trial_settings = row.trial_secrets = row.trial_image = None


def cancel(row: ContainerRow) -> None:
    """As if it had not been tried: the settings from before are the container's again."""
    if row.fallback is not None:
        assert row.fallback_secrets is not None, "kept together"
        _put(row, row.fallback["settings"], row.fallback_secrets)
        row.desired_replicas = row.fallback["desired_replicas"]
    _forget(row)


def go_back(row: ContainerRow) -> None:
    """The attempt failed: deploy what ran before, the very same image."""
    assert row.fallback is not None, "only what replaced something can go back"
    image = row.fallback["image"]
    cancel(row)
    row.generation += 1
    row.unready_since = None
    _put_image(row, image)


def failed(row: ContainerRow, verdict: Verdict, now: datetime) -> None:
    row.trial_failure = {
        "reason": verdict.reason,
        "message": verdict.message,
        "fix": verdict.fix and verdict.fix.to_json(),
        "at": now.isoformat(),
    }


def succeed(row: ContainerRow) -> None:
    _forget(row)
    row.draft = row.draft_saved_at = row.draft_saved_by = None


def _forget(row: ContainerRow) -> None:
    row.trial_settings = row.trial_secrets = row.trial_image = None
    row.fallback = row.fallback_secrets = None


def _put(row: ContainerRow, settings: dict[str, Any], sealed_secrets: bytes) -> None:
    row.settings, row.secrets, row.instance_type = settings, sealed_secrets, settings["instance_type"]


def _image(row: ContainerRow) -> dict[str, Any]:
    return {
        "ref": row.image_ref,
        "digest": row.image_digest,
        "port": row.port,
        "gpu_environment": row.image_gpu_environment,
    }


def _put_image(row: ContainerRow, image: dict[str, Any]) -> None:
    row.image_generation = row.generation
    row.image_ref, row.image_digest, row.port = image["ref"], image["digest"], image["port"]
    # An earlier version did not keep it.
    row.image_gpu_environment = image.get("gpu_environment")
