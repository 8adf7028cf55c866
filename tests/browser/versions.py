"""A history of a container's settings: one that was replaced, one that serves, one that went back."""

import json
from datetime import datetime, timedelta

from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy
from tests.database.api_support import Api

IMAGE = {"ref": "sha256:1", "digest": f"sha256:9c41{'0' * 56}e07b", "port": 8000, "gpu_environment": None}
WENT_BACK = "6.4 % of its 1,208 answers were errors; the bound is 1 %."
_SERVED_BESIDE_S = 95
"""The third, until it went back."""


async def add_versions(
    api: Api,
    container_id: str,
    by: str,
    now: datetime,
    *,
    first: timedelta = timedelta(hours=7),
    second: timedelta = timedelta(hours=5),
    third: timedelta = timedelta(hours=3),
) -> None:
    """How long ago each of them was made."""
    command = [{"field": "start_command", "from": None, "to": "vllm serve --gpu-memory-utilization 0.99"}]
    token = [{"field": "env.TOKEN", "from": "***", "to": "***"}]
    await api.execute("DELETE FROM container_versions WHERE container_id = :id", id=container_id)
    for version, ago, outcome, changes, reason, served, since in (
        (1, first, "replaced", [], None, first - second, None),
        (2, second, "serving", token, None, timedelta(0), now - second),
        (3, third, "rolled_back", command, WENT_BACK, timedelta(seconds=_SERVED_BESIDE_S), None),
    ):
        await api.execute(
            "INSERT INTO container_versions (container_id, version, created_at, created_by, settings, secrets, image, changes, "
            "strategy, outcome, reason, served_s, served_since) SELECT id, :version, :at, :by, settings, secrets, "
            "CAST(:image AS jsonb), CAST(:changes AS jsonb), :strategy, :outcome, :reason, :served_s, :since FROM containers "
            "WHERE id = :id",
            id=container_id,
            version=version,
            at=now - ago,
            by=by,
            image=json.dumps(IMAGE),
            changes=json.dumps(changes),
            strategy="rolling" if version > 1 else None,
            outcome=outcome,
            reason=reason,
            served_s=served.total_seconds(),
            since=since,
        )
    await api.execute("UPDATE containers SET version = 2 WHERE id = :id", id=container_id)


async def add_canary(api: Api, container_id: str, now: datetime) -> None:
    """Version 3 gets 10 % of the requests beside version 2, and is faster."""
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
