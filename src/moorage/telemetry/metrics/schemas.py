from datetime import datetime

from pydantic import BaseModel


class Metrics(BaseModel):
    step_s: int
    times: list[datetime]
    """When each step begins."""
    series: dict[str, list[float | None]]
    """A value for each step; null where nothing is known, as the response time of a step without requests."""
