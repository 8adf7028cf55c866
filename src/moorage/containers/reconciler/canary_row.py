"""The version on trial of a container, as a row of its own: what is done for a container is done for it just the same."""

from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.rollout import Rollout
from moorage.containers.states import TrialStep
from moorage.containers.trial import canary_generation, put_image, trial_step


def canary_row(row: ContainerRow) -> ContainerRow | None:
    """Never stored. None where a container has no canary, or its image is not known yet."""
    rollout = Rollout.from_json(row.rollout)
    if rollout is None or trial_step(row) is not TrialStep.CANARY:
        return None
    assert row.trial_settings is not None, "a trial that has begun has settings"
    assert row.trial_image is not None, "and is a canary only once its image is known"
    generation = canary_generation(row)
    canary = ContainerRow(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        settings=row.trial_settings,
        secrets=row.trial_secrets,
        instance_type=row.trial_settings["instance_type"],
        desired_state=row.desired_state,
        desired_replicas=rollout.replicas_of_canary(row.desired_replicas),
        generation=generation,
        version=rollout.version,
        failed_generation=0,
        serving_generation=generation if rollout.serving_since is not None else 0,
        changes=row.changes,
        watched_since=row.watched_since,
        next_look_at=row.next_look_at,
        stop_reason=row.stop_reason,
    )
    put_image(canary, row.trial_image)
    return canary


def is_of_canary(replica: ReplicaRow, canary: ContainerRow | None) -> bool:
    return canary is not None and replica.generation == canary.generation
