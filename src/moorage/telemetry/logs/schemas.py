from datetime import datetime

from pydantic import BaseModel

from moorage.telemetry.logs.streams import LineStream


class LogLine(BaseModel):
    time: datetime
    """When the replica began to print the line, by the engine's clock."""
    container_id: str
    instance_id: str
    """The replica that printed it, or that `moorage` speaks of."""
    stream: LineStream
    """`moorage`: not printed by the replica, but said by Moorage about its log, such as that lines are missing here."""
    sequence: int
    """Counts the lines of one instance, from 0. `instance_id` and `sequence` together name a line."""
    text: str


class LogHistogram(BaseModel):
    step_s: int
    times: list[datetime]
    """When each step begins."""
    series: dict[LineStream, list[int]]
    """How many lines of a stream began in each step."""
