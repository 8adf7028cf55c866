"""An API in front of a real Postgres, and rows that say what runs: every state of a container at once, without waiting
for an engine to reach it. For pages and pictures; what the engine does is shown in front of a whole Moorage."""

import asyncio
import json
import shutil
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import uvicorn
from sqlalchemy import text

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.entrypoints.migrate import migrate
from moorage.kit.database import Database
from moorage.kit.home import prepare_home
from moorage.kit.ids import new_activity_id, new_replica_id
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.telemetry.partition_repository import create_partition
from tests.browser.told_time import TELL, ToldClock, can_be_told_the_time
from tests.database.api_support import KEYRING, Api, Home, new_home
from tests.folders import folder_for_a_database
from tests.models.hub_stand_in import Hub
from tests.ports import free_port
from tests.servers import serving

ResultT = TypeVar("ResultT")
Past = Sequence[tuple[str, datetime]]
"""States, and since when."""
FOUNDED = timedelta(days=40)
PARTITIONED = ("log_lines", "request_records", "request_histograms", "crash_capsules")
HERE = ("local", "node-03")
"""The engine and the name of the one machine of every world."""


@dataclass(frozen=True)
class Placed:
    """A replica, and where it is."""

    since: datetime
    machine: tuple[str, str] = HERE
    gpus: tuple[str, ...] = ()
    slot: int = 0
    state: str = "routed"
    version: int = 1
    ready_after: timedelta = timedelta(seconds=42)
    ended: datetime | None = None


class World:
    """Its loop lives in a thread of its own, because a browser that is driven from this one has a loop there."""

    def __init__(self, moment: datetime | None = None) -> None:
        """`moment`: it stays that moment."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._folder = folder_for_a_database()
        self._ports = iter(range(30000, 31000))
        self.hub = Hub()
        """Where its models are looked up."""
        self._beside = AsyncExitStack()
        self._moment = moment
        self._clock = ToldClock()

    def start(self) -> None:
        self._thread.start()
        self.do(self._start())

    def stop(self) -> None:
        self.do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def do(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    def now(self) -> datetime:
        return self._clock.now()

    @contextmanager
    def at(self, moment: datetime) -> Iterator[None]:
        """What is done within happens then."""
        self.do(self._tell(moment))
        try:
            yield
        finally:
            # Whatever fails within, the tests that follow live in their own time.
            self.do(self._tell(self._moment))

    async def _tell(self, moment: datetime | None) -> None:
        self._clock.at = moment
        await self.api.execute(TELL, at=moment)

    def home(self, email: str, organization: str, project: str) -> Home:
        """Somebody with an organization and a project of these names, signed in."""

        async def make() -> Home:
            home = await new_home(self.api, email)
            await self.api.execute(
                "UPDATE organizations SET name = :name WHERE id = :id",
                name=organization,
                id=home.organization_id,
            )
            await self.api.execute(
                "UPDATE projects SET name = :name WHERE id = :id", name=project, id=home.project_id
            )
            return home

        return self.do(make())

    def operator(self) -> str:
        """A session's token of whoever runs the installation."""
        return self.do(self.api.new_person(self.api.settings.operator_email))[1]

    def container(self, home: Home, name: str, state: str, *, ready: int = 0, **columns: Any) -> str:
        """One in that state. `settings` changes some of them; `logs` are its replica's lines, as texts or as texts with their times;
        `past` are its states and since when it was in each; `replicas` says more of them than `ready`."""
        return self.do(self._container(home, name, state, ready, columns))

    async def _container(self, home: Home, name: str, state: str, ready: int, columns: dict[str, Any]) -> str:
        settings, logs = columns.pop("settings", {}), columns.pop("logs", [])
        now = self.now()
        past: Past = columns.pop("past", None) or _usual_past(state, now)
        usual = [Placed(now - timedelta(hours=30 - 26 * slot), slot=slot) for slot in range(ready)]
        placed: Sequence[Placed] = columns.pop("replicas", usual)
        container_id = await self.api.new_container(home.project_id, name)
        values = {"state": state, "desired_state": "stopped" if state == "STOPPED" else "running", **columns}
        values.setdefault("state_since", past[-1][1])
        if "progress" in values:
            values["progress"] = json.dumps(values["progress"])
        if "instance_type" in settings:
            values["instance_type"] = settings["instance_type"]
        sets = ", ".join(f"{column} = :{column}" for column in values)
        await self.api.execute(
            f"UPDATE containers SET {sets}, created_at = :created_at, settings = settings || CAST(:changes AS jsonb) "
            "WHERE id = :id",
            **values,
            id=container_id,
            created_at=past[0][1],
            changes=json.dumps(settings),
        )
        if state == "FAILED" and not placed:
            ended = now - timedelta(minutes=30)
            placed = [Placed(ended, state="removed", ended=ended, ready_after=timedelta(0))]
        replicas = [await self._replica(container_id, one) for one in placed]
        await self._activities(home, container_id, past, columns.get("message"))
        await self._lines(home, container_id, replicas, logs, now)
        return container_id

    async def _replica(self, container_id: str, placed: Placed) -> str:
        replica_id = new_replica_id()
        engine, node = placed.machine
        ready_at = (
            placed.since + placed.ready_after if placed.state not in ("requested", "starting") else None
        )
        await self.api.execute(
            "INSERT INTO replicas (id, container_id, slot, generation, version, instance_type, state, engine, node, "
            "gpu_device_ids, host, host_port, created_at, started_at, ready_at, routed_at, draining_at, ended_at, ended_badly, "
            "waits_since) SELECT :id, id, :slot, generation, :version, instance_type, :state, :engine, :node, "
            "CAST(:gpus AS text[]), '127.0.0.1', :port, :since, :started_at, :ready_at, :ready_at, :draining_at, :ended_at, "
            "false, :waits_since FROM containers WHERE id = :container_id",
            id=replica_id,
            slot=placed.slot,
            version=placed.version,
            state=placed.state,
            engine=engine,
            node=node,
            gpus=list(placed.gpus),
            port=next(self._ports),
            since=placed.since,
            started_at=placed.since if placed.state != "requested" else None,
            ready_at=ready_at,
            draining_at=self.now() if placed.state == "draining" else placed.ended,
            ended_at=placed.ended,
            waits_since=placed.since if placed.state == "requested" else None,
            container_id=container_id,
        )
        return replica_id

    async def _activities(self, home: Home, container_id: str, past: Past, message: str | None) -> None:
        """`message`: of the last of them."""
        before = None
        for to, at in past:
            await self.api.execute(
                "INSERT INTO activities (id, project_id, container_id, actor, kind, at, message, details) VALUES "
                "(:id, :project_id, :container_id, 'system', 'container.state', :at, :message, CAST(:details AS jsonb))",
                id=new_activity_id(),
                project_id=home.project_id,
                container_id=container_id,
                at=at,
                message=message if (to, at) == past[-1] else None,
                details=json.dumps({"from": before, "to": to, "generation": 1}),
            )
            before = to

    async def _lines(
        self,
        home: Home,
        container_id: str,
        replicas: list[str],
        lines: list[str] | list[tuple[datetime, str]],
        now: datetime,
    ) -> None:
        if not lines:
            return
        timed = [
            line
            if isinstance(line, tuple)
            else (now - timedelta(milliseconds=911 * (len(lines) - index)), line)
            for index, line in enumerate(lines)
        ]
        rows = [
            {
                "replica": replicas[index % len(replicas)],
                "sequence": index,
                "container": container_id,
                "project": home.project_id,
                "time": time,
                "stream": 2 if "WARN" in line or "ERROR" in line else 1,
                "text": line,
            }
            for index, (time, line) in enumerate(timed)
        ]
        insert = text(
            "INSERT INTO log_lines (replica_id, sequence, container_id, project_id, time, stream, text) "
            "VALUES (:replica, :sequence, :container, :project, :time, :stream, :text)"
        )
        async with self.api.database.transaction() as session:
            await create_partition(session, "log_lines", now.date())
            await session.execute(insert, rows)

    async def _start(self) -> None:
        self.hub.add_examples()
        settings = Settings(
            model_hub=await self._beside.enter_async_context(serving(self.hub.app)),
            home=self._folder / "home",
            api_listen=f"127.0.0.1:{self.port}",
            community_machines=True,
            bank_details_local="Moorage at the Example Bank\nIBAN XX00 1234 5678 9012 3456",
        )
        prepare_home(settings)
        self._postgres = EmbeddedPostgres(settings, options=("fsync=off",))
        await self._postgres.start()
        await can_be_told_the_time(self._postgres.dsn)
        await migrate(self._postgres.dsn)
        database = Database(self._postgres.dsn, pool_size=10)
        app = create_app(settings, database, KEYRING)
        app.state.clock = self._clock
        self.api = Api(app, database, settings)
        # Whoever tells a story of weeks begins before them.
        await self._tell(self._moment - FOUNDED if self._moment else None)
        async with database.transaction() as session:
            await bootstrap(session, settings)
        await self._tell(self._moment)
        async with database.transaction() as session:
            for table in PARTITIONED:
                await create_partition(session, table, self.now().date())
        await self.api.execute(
            "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) VALUES "
            "('node-03', 'operator', 'amd64', 64000, 549755813888, CAST(:gpus AS jsonb), now() + interval '1 hour')",
            gpus=json.dumps([]),
        )
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_config=None, lifespan="off")
        self._server = uvicorn.Server(config)
        self._listening = asyncio.ensure_future(app.state.listener.run())
        self._serving = asyncio.ensure_future(self._server.serve())
        while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)

    async def _stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        await self._serving
        self._listening.cancel()
        await self.api.database.close()
        await self._postgres.stop()
        await self._beside.aclose()


def _usual_past(state: str, now: datetime) -> Past:
    minutes_ago = [("PENDING", 1860), ("PULLING", 1859), ("STARTING", 1858), (state, 1800)]
    return [(to, now - timedelta(minutes=minutes)) for to, minutes in minutes_ago]
