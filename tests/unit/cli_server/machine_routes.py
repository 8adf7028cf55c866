"""Machines that join."""

from typing import Any

from cli_server.answering import Answering
from cli_server.installation import MACHINE


class MachineRoutes(Answering):
    def _machines(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        match words:
            case ["GET", "operator", "machines"] | ["GET", "organizations", _, "machines"]:
                self._page([MACHINE], query)
            case ["POST", "operator", "machines"] | ["POST", "organizations", "org_one", "machines"]:
                command = "f=$(mktemp) && curl … && printf %s moor_join_x | $(command -v sudo) sh $f"
                added = {"id": MACHINE["id"], "token": "moor_join_x", "command": command}
                self._json(201, {**added, "expires_at": "2026-01-02T03:34:05Z"})
            case ["POST", "machines", "mch_1", "command"]:
                added = {"id": MACHINE["id"], "token": "moor_join_y", "command": "curl … moor_join_y"}
                self._json(200, {**added, "expires_at": "2026-01-02T04:04:05Z"})
            case ["GET", "machines", "mch_1"]:
                self._json(200, MACHINE)
            case ["POST", "machines", "mch_1", ("pause" | "resume" | "drain" | "reclaim") as verb]:
                states = {"pause": "paused", "resume": "active", "drain": "draining", "reclaim": "draining"}
                self._json(200, {**MACHINE, "state": states[verb]})
            case ["POST", "operator", "machines", "mch_1", ("ban" | "unban") as verb]:
                self._json(200, {**MACHINE, "state": {"ban": "banned", "unban": "joining"}[verb]})
            case ["DELETE", "machines", "mch_1"]:
                self._json(204, None)
            case _:
                return False
        return True
