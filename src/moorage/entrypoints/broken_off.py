"""Requests that are broken off because the API ends: told so where nothing was told yet, and no error of ours.

Those that are at work when a role is asked to end have a few seconds. Streams that have no end are broken off then, and so is whatever takes
longer; `uvicorn` takes that for a fault of the application.
"""

import asyncio
import logging

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.entrypoints.errors import refusal
from moorage.kit.errors import UnavailableError
from moorage.kit.web import SAFE_METHODS


class BrokenOff:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if scope["type"] != "http" or has_begun:
                # What has begun is closed in the middle, which is how its reader knows.
                raise
            request = Request(scope)
            undecided = "" if request.method in SAFE_METHODS else " Look first whether it was carried out."
            message = f"The service is being restarted. Send it again in a few seconds.{undecided}"
            await refusal(request, UnavailableError(message))(scope, receive, send)


class WithoutThoseBrokenOff(logging.Filter):
    """For the log of `uvicorn`, which says in a line of its own how many there were."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
