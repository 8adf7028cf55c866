from datetime import datetime

from pydantic import BaseModel

from moorage.telemetry.requests.record import Ending


class Request(BaseModel):
    request_id: str
    project_id: str
    container_id: str | None
    key_id: str
    replica_id: str | None
    started_at: datetime
    queue_ms: int | None
    connect_ms: int | None
    first_byte_ms: int | None
    total_ms: int
    status: int | None
    request_bytes: int
    response_bytes: int
    ended: Ending
    explanation: list[str]
    """What happened, in sentences."""
