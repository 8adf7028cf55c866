"""A pool of connections of which no client takes more than its share.

A place is taken for exactly as long as a connection is: a request that gave its connection back to talk to a registry
holds nothing.
"""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry, PoolProxiedConnection
from sqlalchemy.util import await_only

from moorage.kit.clients import Client, current_client


class SharedPool(AsyncAdaptedQueuePool):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._holders: dict[ConnectionPoolEntry, Client] = {}

    def connect(self) -> PoolProxiedConnection:
        client = current_client.get()
        if client is None:
            return super().connect()
        if client.connections_held == 0:
            # A second connection of the same request needs no place: if it had to wait with the first in its hand, a
            # few such requests would wait for each other.
            await_only(client.connections.take(client.name))
        client.connections_held += 1
        try:
            connection = super().connect()
        except BaseException:
            _give_back(client)
            raise
        record = connection._connection_record
        self._holders[record] = client
        return connection

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        client = self._holders.pop(record, None)
        if client is not None:
            _give_back(client)


def connections_in_use(engine: AsyncEngine) -> int:
    pool = engine.sync_engine.pool
    assert isinstance(pool, SharedPool)
    return pool.checkedout()


def _give_back(client: Client) -> None:
    client.connections_held -= 1
    if client.connections_held == 0:
        client.connections.give_back(client.name)
