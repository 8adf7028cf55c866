"""A request that woke its container, as the parts of Moorage write it down: the sleep, the replica, its hour, the record and the
lines that it printed meanwhile."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from moorage.kit.ids import new_hour_id
from moorage.telemetry.partition_repository import create_partition
from moorage.telemetry.requests.figures import Figures, step_of
from moorage.telemetry.requests.record import Ending
from moorage.telemetry.requests.repository import store
from tests.database.api_support import Api

PRICE_MICROUSD = 800_000
REQUESTS_IN_ITS_HOUR = 37
LINES = (
    (1.100, "\x1b[32mINFO\x1b[0m load_model: qwen2.5-0.5b-instruct-fp16.gguf, 24 layers to CUDA0"),
    (2.590, "\x1b[32mINFO\x1b[0m server is listening on 0.0.0.0:8080"),
    (4.190, '\x1b[32mINFO\x1b[0m "POST /api/v1/chat/completions HTTP/1.1" \x1b[32m200 OK\x1b[0m'),
)
"""Seconds after the request's arrival."""


@dataclass(frozen=True)
class Woken:
    request_id: str
    replica_id: str
    started_at: datetime


async def new_waking_request(
    api: Api, project_id: str, container_id: str, key_id: str, replica_id: str, started_at: datetime
) -> Woken:
    """4.2 s, of which it waited 2.62 s for its container, which had been asleep for 41 minutes."""

    def after(seconds: float) -> datetime:
        return started_at + timedelta(seconds=seconds)

    request_id = await api.new_request(
        project_id,
        key_id,
        container_id=container_id,
        started_at=started_at,
        queue_ms=0,
        connect_ms=0,
        first_byte_ms=2800,
        total_ms=4200,
        status=200,
        request_bytes=1_312,
        response_bytes=9_804,
        ended=Ending.COMPLETED,
        retries=0,
        method="POST",
        path="/api/v1/chat/completions",
    )
    await api.execute(
        "UPDATE replicas SET created_at = :created, started_at = :started, ready_at = :ready, routed_at = :routed "
        "WHERE id = :id",
        id=replica_id,
        created=after(0.06),
        started=after(0.84),
        ready=after(2.6),
        routed=after(2.61),
    )
    await api.execute(
        "INSERT INTO container_sleeps (container_id, asleep_at, paid_until, replicas, price_per_hour_microusd, woken_at, "
        "woken_by, served_at, replica_id) VALUES (:container_id, :asleep_at, NULL, 1, :price, :woken_at, :key_id, :served_at, "
        ":replica_id)",
        container_id=container_id,
        asleep_at=after(-41 * 60),
        price=PRICE_MICROUSD,
        woken_at=after(0.05),
        key_id=key_id,
        served_at=after(2.61),
        replica_id=replica_id,
    )
    await api.execute(
        "INSERT INTO held_requests (request_id, container_id, gateway_id, arrived_at, held_ms, place, places, replica_id) "
        "VALUES (:request_id, :container_id, 'gtw_test', :at, 2620, 1, 128, :replica_id)",
        request_id=request_id,
        container_id=container_id,
        at=started_at,
        replica_id=replica_id,
    )
    await api.execute(
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state, held_at, "
        "bought_at, expires_at) SELECT :id, organization_id, id, :container_id, 'l4-24gb', 0, :price, 'paid', :bought, "
        ":bought, :expires FROM projects WHERE id = :project_id",
        id=new_hour_id(),
        project_id=project_id,
        container_id=container_id,
        price=PRICE_MICROUSD,
        bought=after(2.6),
        expires=after(3602.6),
    )
    async with api.database.transaction() as session:
        figures = Figures()
        for _ in range(REQUESTS_IN_ITS_HOUR):
            figures.count(200, 4200, 2800, key_id)
        await store(
            session,
            "gtw_test",
            datetime.now(UTC) + timedelta(microseconds=1),
            [],
            {(container_id, step_of(after(4.2).timestamp())): figures},
        )
        await create_partition(session, "log_lines", datetime.now(UTC).date())
    for sequence, (seconds, line) in enumerate(LINES):
        await api.execute(
            "INSERT INTO log_lines (replica_id, sequence, container_id, project_id, time, stream, text) "
            "VALUES (:replica_id, :sequence, :container_id, :project_id, :time, 1, :text)",
            replica_id=replica_id,
            sequence=sequence,
            container_id=container_id,
            project_id=project_id,
            time=after(seconds),
            text=line,
        )
    return Woken(request_id, replica_id, started_at)
