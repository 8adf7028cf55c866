from datetime import datetime

from pydantic import BaseModel

Series = dict[str, list[float | None]]
"""By name, a value for each step; null where nothing is known, as the response time of a step without requests."""


class GpuMetrics(BaseModel):
    device_id: str
    series: Series
    """`utilization_percent`, `memory_bytes`, `temperature_celsius`, `power_watts`."""


class ReplicaMetrics(BaseModel):
    replica_id: str
    slot: int
    series: Series
    """`cpu_millis` (1000 is one vCPU) and `memory_bytes`, without the cache of files."""
    gpus: list[GpuMetrics]


class Metrics(BaseModel):
    step_s: int
    times: list[datetime]
    """When each step begins."""
    series: Series
    replicas: list[ReplicaMetrics]
    """Those that ran in this time, oldest first; the newest 50 where there were more."""
