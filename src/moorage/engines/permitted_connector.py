"""The last step before a request to an engine is written, of every request: a former leader's is not."""

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from moorage.kit.permission import require_permission


class PermittedConnector(aiohttp.BaseConnector):
    """In front of the connector that connects, in a class of both."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        try:
            require_permission()
        except BaseException:
            connection.release()
            raise
        return connection
