"""Whether a container sleeps. Pure.

`asleep_since` is what is wanted: no replicas. `woken_at` says that somebody asked something of it, and stays until a replica is
at the endpoint again. With either, requests are held, and people see it as asleep; its state stays RUNNING.
"""

from datetime import datetime, timedelta
from typing import Protocol

from moorage.containers.states import DesiredState

_HOUR = timedelta(hours=1)


class Sleeper(Protocol):
    @property
    def desired_state(self) -> str: ...
    @property
    def asleep_since(self) -> datetime | None: ...
    @property
    def woken_at(self) -> datetime | None: ...


def is_asleep(row: Sleeper) -> bool:
    sleeps = row.asleep_since is not None or row.woken_at is not None
    return sleeps and row.desired_state == DesiredState.RUNNING


def saved_microusd(
    begin: datetime, end: datetime, paid_until: datetime | None, replicas: int, price_per_hour_microusd: int
) -> int:
    """What its replicas would have cost in the time asleep. The rest of an hour that was paid for already saves nothing."""
    unpaid = end - (begin if paid_until is None else max(begin, paid_until))
    return max(0, unpaid * replicas * price_per_hour_microusd // _HOUR)
