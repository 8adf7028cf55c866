from datetime import datetime

from pydantic import BaseModel

from moorage.telemetry.logs.streams import LineStream


class ProbeRun(BaseModel):
    by: str
    outcome: str
    status: int | None
    first_at: datetime
    last_at: datetime
    count: int


class LastLine(BaseModel):
    time: datetime
    stream: LineStream
    text: str


class CapsuleContent(BaseModel):
    reason: str | None
    message: str | None
    exit_code: int | None
    slot: int
    generation: int
    """Of the settings that it ran with."""
    image: str
    image_digest: str | None
    node: str
    gpu_device_ids: list[str]
    gpus: list[dict[str, str | int | None]]
    """Those of its machine, as its engine last described them."""
    created_at: datetime
    started_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    probes: list[ProbeRun]
    """Its health checks, oldest first, equal outcomes in a row together."""
    last_lines: list[LastLine]
    """Oldest first, secrets masked."""


class Capsule(CapsuleContent):
    replica_id: str
    container_id: str
    written_at: datetime
