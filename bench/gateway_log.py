"""Reads what a gateway logs of each request, as its agent does, and says what that costs."""

import socketserver
import threading
import time
from pathlib import Path

from moorage.gateway.request_collection import RequestCollection
from moorage.gateway.request_log import parse

_KEPT_LINES = 20_000


class RequestLog:
    def __init__(self, path: Path) -> None:
        self._kept: list[bytes] = []
        kept = self._kept

        class Reader(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while piece := self.request.recv(1 << 20):
                    if len(kept) < _KEPT_LINES:
                        # A piece may begin or end within a line.
                        kept.extend(piece.split(b"\n")[1:-1])

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Reader)
        self._server.daemon_threads = True
        path.chmod(0o666)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def cpu_us_per_request(self) -> float:
        """Of the agent: to read a line, count the request and keep some records."""
        collection = RequestCollection(records_per_s=20)
        started = time.process_time()
        for line in self._kept:
            request = parse(line)
            if request is not None:
                collection.take(request)
        return (time.process_time() - started) * 1e6 / max(1, len(self._kept))
