"""A history of a container's settings: one that was replaced, one that serves, one that went back."""

import json
from datetime import UTC, datetime

from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy
from tests.database.api_support import Api

IMAGE = {"ref": "sha256:1", "digest": f"sha256:9c41{'0' * 56}e07b", "port": 8000, "gpu_environment": None}
WENT_BACK = "6.4 % of its 1,208 answers were errors; the bound is 1 %."


async def add_versions(api: Api, container_id: str, by: str) -> None:
    port = [{"field": "port", "from": 8000, "to": 9000}]
    token = [{"field": "env.TOKEN", "from": "***", "to": "***"}]
    await api.execute("DELETE FROM container_versions WHERE container_id = :id", id=container_id)
    for version, outcome, changes, reason, served_s in (
        (1, "replaced", [], None, 7200),
        (2, "serving", token, None, 60),
        (3, "rolled_back", port, WENT_BACK, 0),
    ):
        await api.execute(
            "INSERT INTO container_versions (container_id, version, created_by, settings, secrets, image, changes, "
            "strategy, outcome, reason, served_s) SELECT id, :version, :by, settings, secrets, CAST(:image AS jsonb), "
            "CAST(:changes AS jsonb), 'rolling', :outcome, :reason, :served_s FROM containers WHERE id = :id",
            id=container_id,
            version=version,
            by=by,
            image=json.dumps(IMAGE),
            changes=json.dumps(changes),
            outcome=outcome,
            reason=reason,
            served_s=served_s,
        )
    await api.execute("UPDATE containers SET version = 2 WHERE id = :id", id=container_id)


async def add_canary(api: Api, container_id: str) -> None:
    """Version 3 gets 10 % of the requests beside version 2, and is faster."""
    now = datetime.now(UTC)
    rollout = Rollout(Strategy.CANARY, 3, 2, now, share=10, serving_since=now)
    await api.execute(
        "UPDATE containers SET trial_settings = settings, trial_secrets = secrets, trial_image = CAST(:image AS jsonb), "
        "rollout = CAST(:rollout AS jsonb) WHERE id = :id",
        id=container_id,
        image=json.dumps(IMAGE),
        rollout=json.dumps(rollout.to_json()),
    )
    for version, answers, errors, bucket in ((2, 900, 1, 20), (3, 100, 2, 10)):
        values = {"id": container_id, "version": version}
        await api.execute(
            "INSERT INTO version_figures VALUES (:id, :version, 'gtw_1', :answers, :errors)",
            **values,
            answers=answers,
            errors=errors,
        )
        await api.execute(
            "INSERT INTO version_response_times VALUES (:id, :version, 'gtw_1', :bucket, 10)",
            **values,
            bucket=bucket,
        )
