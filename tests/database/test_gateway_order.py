"""What a gateway sends to Postgres comes in the same order from every process, although it is kept in sets."""

from typing import Any

from sqlalchemy import event

from moorage.gateway.repository import RouteReport, read_named, report
from moorage.gateway.table import GatewayTable
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId, new_container_id, new_replica_id


class Sent:
    """The ids in each statement, in their order."""

    def __init__(self, database: Database) -> None:
        self.ids: list[list[str]] = []
        event.listen(database._engine.sync_engine, "before_cursor_execute", self._hear)

    def _hear(self, connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        ids = [one for one in parameters if isinstance(one, str) and one.startswith(("ctr_", "rep_"))]
        if ids:
            self.ids.append(ids)


async def test_containers_that_were_named_are_read_in_one_order(database: Database) -> None:
    named, sent = {new_container_id() for _ in range(20)}, Sent(database)
    async with database.reading() as session:
        await read_named(session, GatewayTable({}, {}), named)
    assert sent.ids == [sorted(named)]


async def test_owners_of_what_is_gone_are_woken_in_one_order(database: Database) -> None:
    gone, sent = {new_replica_id() for _ in range(20)}, Sent(database)
    before = {str(name): RouteReport(draining=False, in_flight=0) for name in gone}
    async with database.transaction() as session:
        await report(session, GatewayId("gtw_test"), {}, before)
    assert sent.ids == [sorted(gone)] * 2, "their rows are deleted, then their containers woken"
