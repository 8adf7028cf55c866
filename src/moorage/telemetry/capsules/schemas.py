from datetime import datetime
from typing import Self

from pydantic import BaseModel, model_validator

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
    """Its own, as its engine last described them. Others of its machine are other people's."""
    created_at: datetime
    started_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    probes: list[ProbeRun]
    """Its health checks, oldest first, equal outcomes in a row together."""
    last_lines: list[LastLine]
    """Oldest first, secrets masked."""

    @model_validator(mode="after")
    def _own_gpus_alone(self) -> Self:
        self.gpus = [gpu for gpu in self.gpus if gpu.get("device_id") in self.gpu_device_ids]
        return self


class Capsule(CapsuleContent):
    replica_id: str
    container_id: str
    written_at: datetime
