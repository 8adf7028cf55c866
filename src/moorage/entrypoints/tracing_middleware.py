"""A span for each request to the API, with its route and status, never with what clients typed."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.kit.tracing import note, span


class TracingMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def noted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                note(
                    status=message["status"],
                    route=getattr(scope.get("route"), "path", "none"),
                    request_id=scope.get("state", {}).get("request_id", ""),
                )
            await send(message)

        with span("api request", method=scope["method"]):
            await self._app(scope, receive, noted_send)
