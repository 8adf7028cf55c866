"""Connections to servers that a tenant runs, which give one answer to one request.

A server may send any number of interim answers (100 Continue) before its own, and answers that nobody asked for behind it.
aiohttp makes an object of each and looks through all that have come in one go: 256 KiB of them held the loop that serves
everybody for two and a half seconds, again and again. Here a few are read, and then the connection is given up.
"""

import asyncio
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

MOST_ANSWERS = 8
"""To one request, with the interim ones."""
_BEGINNING = b"HTTP/"
_PART_BYTES = 512


class FewAnswersConnector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = cast("partial[ResponseHandler]", partial(FewAnswers, loop=self._loop))


class FewAnswers(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answers = 0

    def set_response_params(self, **options: Any) -> None:
        """For the next request."""
        self._answers = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        if data.count(_BEGINNING) <= MOST_ANSWERS:
            super().data_received(data)
            return
        # They may stand in an ordinary body, too. In small parts, not many are made before it shows.
        for at in range(0, len(data), _PART_BYTES):
            if self._answers > MOST_ANSWERS:
                return
            super().data_received(data[at : at + _PART_BYTES])

    def feed_data(self, data: Any, size: int = 0) -> None:
        self._answers += 1
        if self._answers <= MOST_ANSWERS:
            super().feed_data(data, size)
        elif self._answers == MOST_ANSWERS + 1:
            self.set_exception(BadHttpMessage("more answers than were asked for"))
            if self.transport is not None:
                self.transport.abort()
