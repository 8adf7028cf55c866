"""Crash capsules as the writer leaves them, for pages and pictures. Times in them are minutes ago."""

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from moorage.kit.ids import new_replica_id
from moorage.telemetry.partition_repository import create_partition
from tests.database.api_support import Api

INFO = "\x1b[32mINFO\x1b[0m"
ENDED_MINUTES_AGO = 25.2
"""Started five minutes earlier: that is what it had to become healthy."""
_TIMES = ("created_at", "started_at", "ready_at", "ended_at", "first_at", "last_at", "time")
_WHERE = {
    "slot": 0,
    "generation": 3,
    "image": "ghcr.io/northwind/whisper:3",
    "image_digest": f"sha256:51be{'0' * 56}c2d9",
    "node": "gpu-node-05",
    "gpu_device_ids": ["GPU-0"],
    "gpus": [{"device_id": "GPU-0", "model": "NVIDIA L4", "memory_bytes": 24 * 2**30}],
}
LOOPBACK: dict[str, Any] = {
    **_WHERE,
    "reason": "listens_on_loopback_only",
    "message": "Listens on 127.0.0.1:8000; expected 0.0.0.0:8000. Bind to 0.0.0.0 inside the container.",
    "exit_code": None,
    "created_at": 31.0,
    "started_at": 30.2,
    "ready_at": None,
    "ended_at": ENDED_MINUTES_AGO,
    "probes": [
        {"by": "controller", "outcome": "refused", "status": None, "first_at": 30.1, "last_at": 25.2, "count": 300}
    ],
    "last_lines": [
        {"time": 30.19, "stream": "stdout", "text": f"{INFO}: Started server process [1]"},
        {"time": 30.18, "stream": "stdout", "text": f"{INFO}: Waiting for application startup."},
        {"time": 29.85, "stream": "stdout", "text": "model large-v3 loaded in 18.4 s (cuda:0, float16)"},
        {"time": 29.8, "stream": "stdout", "text": f"{INFO}: Application startup complete."},
        {"time": 29.8, "stream": "stdout", "text": f"{INFO}: Uvicorn running on http://127.0.0.1:8000"},
        {"time": ENDED_MINUTES_AGO, "stream": "stdout", "text": f"{INFO}: Shutting down"},
    ],
}  # fmt: skip
OUT_OF_MEMORY: dict[str, Any] = {
    **_WHERE,
    "generation": 2,
    "reason": "out_of_memory",
    "message": "Out of memory: it used more than its 32 GiB. Choose a larger instance type.",
    "exit_code": 137,
    "created_at": 95.0,
    "started_at": 94.5,
    "ready_at": 93.0,
    "ended_at": 70.0,
    "probes": [
        {"by": "controller", "outcome": "refused", "status": None, "first_at": 94.4, "last_at": 93.1, "count": 78},
        {"by": "gateway", "outcome": "ok", "status": 200, "first_at": 93.0, "last_at": 71.0, "count": 1320},
        {"by": "gateway", "outcome": "timeout", "status": None, "first_at": 70.9, "last_at": 70.1, "count": 9},
    ],
    "last_lines": [
        {"time": 70.4, "stream": "stdout", "text": f"{INFO}: batch of 64 files, 41 min of audio"},
        {"time": 70.1, "stream": "stderr", "text": "\x1b[31mERROR\x1b[0m: cannot allocate memory"},
    ],
}  # fmt: skip


async def add_capsule(api: Api, container_id: str, content: dict[str, Any], now: datetime) -> None:
    """Written a few seconds after the replica ended."""
    at = now - timedelta(minutes=content["ended_at"], seconds=-5)
    async with api.database.transaction() as session:
        await create_partition(session, "crash_capsules", at.date())
        await session.execute(
            text(
                "INSERT INTO crash_capsules (replica_id, written_at, container_id, project_id, content) "
                "SELECT :replica, :at, id, project_id, CAST(:content AS jsonb) FROM containers WHERE id = :container"
            ),
            {
                "replica": new_replica_id(),
                "at": at,
                "content": json.dumps(_dated(content, now)),
                "container": container_id,
            },
        )


def _dated(value: Any, now: datetime, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _dated(one, now, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_dated(one, now) for one in value]
    if name in _TIMES and value is not None:
        return (now - timedelta(minutes=value)).isoformat()
    return value
