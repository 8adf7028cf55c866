"""What this process of the API was asked, for Prometheus: by route and status, never by id."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.entrypoints.metric_list import API_REQUEST_SECONDS, API_REQUESTS
from moorage.kit.clock import Clock
from moorage.kit.exposition import Family, Value

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NO_ROUTE, OTHER_METHOD = "none", "other"


@dataclass
class ApiCounts:
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By method, route and status."""
    durations: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Until the answer began, so that a stream counts as what it took to open."""
    duration_sum_s: float = 0.0

    def count(self, method: str, route: str, status: int, duration_s: float) -> None:
        self.requests[method, route, status] += 1
        self.durations[bisect_left(BOUNDS_S, duration_s)] += 1
        self.duration_sum_s += duration_s

    def families(self) -> list[Family]:
        requests = [
            Value(count, {"method": method, "route": route, "status": str(status)})
            for (method, route, status), count in sorted(self.requests.items())
        ]
        return [API_REQUESTS.family(requests), API_REQUEST_SECONDS.family(self._histogram())]

    def _histogram(self) -> list[Value]:
        seen, values = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.durations, strict=True):
            seen += count
            values.append(Value(seen, {"le": bound}, "_bucket"))
        return [*values, Value(self.duration_sum_s, suffix="_sum"), Value(seen, suffix="_count")]


class ApiCountsMiddleware:
    def __init__(self, app: ASGIApp, counts: ApiCounts, clock: Clock) -> None:
        self._app = app
        self._counts = counts
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = self._clock.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route as it is declared: what a client typed would make a series of its own each time.
                route = getattr(scope.get("route"), "path", NO_ROUTE)
                taken_s = self._clock.monotonic() - began_s
                method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
                self._counts.count(method, route, message["status"], taken_s)
            await send(message)

        await self._app(scope, receive, counted)
