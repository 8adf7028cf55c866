"""Who signs in, who is refused, and which part knows a path."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from cli_server.account_routes import AccountRoutes
from cli_server.catalogue_routes import CatalogueRoutes
from cli_server.container_routes import ContainerRoutes
from cli_server.key_routes import KeyRoutes
from cli_server.machine_routes import MachineRoutes
from cli_server.operator_routes import OperatorRoutes
from cli_server.state import MANAGE_KEY, OPERATOR_KEY, SESSION_TOKEN, FakeMoorage


@contextmanager
def serving(fake: FakeMoorage) -> Iterator[FakeMoorage]:
    class Bound(_Handler):
        moorage = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


class _Handler(AccountRoutes, CatalogueRoutes, ContainerRoutes, KeyRoutes, MachineRoutes, OperatorRoutes):
    def _route(self, path: str, query: dict[str, str], body: Any) -> None:
        fake = self.moorage
        if path in fake.files:
            return self._send(200, "application/pdf", fake.files[path])
        refusal = fake.refusals.get((self.command, path))
        if refusal is not None:
            status, told = refusal
            problem = {"status": status, "request_id": "req_1"} if status >= 400 else {}
            return self._json(status, None if told is None else {**problem, **told})
        match [self.command, *path.strip("/").split("/")]:
            case ["POST", "auth", "email", "start"]:
                return self._json(202, {"message": "A code is on its way."})
            case ["POST", "auth", "email", "verify"] if body["code"] == "123456":
                return self._json(200, {"session_token": SESSION_TOKEN})
            case ["POST", "auth", "link", "verify"] if body["token"] == "moor_link_test":
                return self._json(200, {"session_token": SESSION_TOKEN})
            case ["POST", "auth", "device"]:
                url = f"{fake.url}/device?code=BCDF-GHJK"
                started = {"device_code": "moor_dev_test", "user_code": "BCDF-GHJK", "verification_url": url}
                return self._json(201, {**started, "interval_s": 0, "expires_in_s": fake.device_expires_in_s})
            case ["POST", "auth", "device", "token"] if fake.device_answers:
                return self._json(*fake.device_answers.pop(0))
            case ["POST", "auth", "email" | "link", "verify"]:
                return self._problem(401, "authentication_failed", "The code is wrong or expired.")
        if self.token not in (OPERATOR_KEY, SESSION_TOKEN, MANAGE_KEY):
            return self._problem(401, "authentication_failed", "Sign in.")
        return self._signed_in(path, query, body)

    def _signed_in(self, path: str, query: dict[str, str], body: Any) -> None:
        words = [self.command, *path.strip("/").split("/")]
        subjects = (
            self._accounts,
            self._catalogue,
            self._containers,
            self._keys,
            self._machines,
            self._operator,
        )
        if not any(answered(words, query, body) for answered in subjects):
            self._problem(404, "not_found", "There is nothing at this path.")

    def _chat(self) -> None:
        status, kind, content = self.moorage.chat_answers.pop(0)
        self._send(status, kind, content, {"X-Request-ID": "req_chat"})
