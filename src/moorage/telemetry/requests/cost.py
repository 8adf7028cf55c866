"""What requests cost, by the key that they came with. Pure.

Hours are what is paid for, so a request costs its share of them: the price of an hour divided by the requests that ended in it. Nobody
can say more: whether a request that took longer kept others from being served depends on the server. Example: an hour of $3.00 in
which 200 requests of one key and 100 of another ended costs the first $2.00 and the second $1.00.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from moorage.kit.errors import FieldError, InvalidInputError

DEFAULT = timedelta(days=1)


@dataclass(frozen=True)
class PaidHour:
    price_microusd: int
    requests: Mapping[str | None, int]
    """By key; None where it is not known. Without any, it was idle."""


@dataclass
class Share:
    requests: int = 0
    cost_microusd: int = 0


@dataclass
class Division:
    hours: int = 0
    spent_microusd: int = 0
    idle_hours: int = 0
    idle_microusd: int = 0
    keys: dict[str | None, Share] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.keys.values())

    @property
    def per_request_microusd(self) -> int | None:
        return round(self.spent_microusd / self.requests) if self.requests else None


@dataclass(frozen=True)
class Span:
    first: datetime
    end: datetime


def span_of(now: datetime, first: datetime | None, end: datetime | None, kept_days: int) -> Span:
    """Not before requests are counted: an hour without counts would look idle."""
    oldest = now - timedelta(days=kept_days)
    end = min(end or now, now)
    if end <= oldest or (first is not None and first >= end):
        fields = (FieldError("from", "must be before `to`"),)
        raise InvalidInputError(
            f"There is nothing between `from` and `to`. Moorage keeps request counts for {kept_days} days.",
            fields=fields,
        )
    return Span(max(first or end - DEFAULT, oldest).astimezone(UTC), end.astimezone(UTC))


def divide(hours: Iterable[PaidHour], requests: Mapping[str | None, int]) -> Division:
    """`requests` by key, each once: one that ended in the hours of three replicas is in each of the hours, and is one."""
    division = Division(keys={key_id: Share(count) for key_id, count in requests.items()})
    for hour in hours:
        division.hours += 1
        division.spent_microusd += hour.price_microusd
        if not hour.requests:
            division.idle_hours += 1
            division.idle_microusd += hour.price_microusd
        for key_id, microusd in parts(hour.price_microusd, hour.requests).items():
            division.keys[key_id].cost_microusd += microusd
    return division


def parts(price_microusd: int, requests: Mapping[str | None, int]) -> dict[str | None, int]:
    """Whole micro-dollars that add up to the price: what rounding down leaves goes to those that lost most by it."""
    total = sum(requests.values())
    shares = {key: divmod(price_microusd * count, total) for key, count in requests.items()}
    left = price_microusd - sum(whole for whole, _ in shares.values())
    by_loss = sorted(shares, key=lambda key: (-shares[key][1], key or ""))
    more = set(by_loss[:left])
    return {key: whole + (key in more) for key, (whole, _) in shares.items()}
