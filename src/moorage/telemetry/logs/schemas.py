from datetime import datetime

from pydantic import BaseModel

from moorage.engines.base import LogStream


class LogLine(BaseModel):
    time: datetime
    """When the replica began to print the line, by the engine's clock."""
    container_id: str
    instance_id: str
    """The replica that printed it."""
    stream: LogStream
    sequence: int
    """Counts the lines of one instance, from 0. `instance_id` and `sequence` together name a line."""
    text: str


class LogHistogram(BaseModel):
    step_s: int
    times: list[datetime]
    """When each step begins."""
    series: dict[LogStream, list[int]]
    """How many lines of a stream began in each step."""
