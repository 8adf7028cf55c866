"""The operator's side, and what is asked of the operator."""

from typing import Any

from cli_server.answering import Answering
from cli_server.catalogue import INSTANCE_TYPES
from cli_server.installation import LIMIT_REQUEST, NODE, OPERATOR_HEALTH, OPERATOR_STATUS, TYPE_PROPOSAL
from cli_server.state import OPERATOR_KEY


class OperatorRoutes(Answering):
    def _operator(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        match words:
            case ["GET", "operator", "status"] if self.token == OPERATOR_KEY:
                self._json(200, OPERATOR_STATUS)
            case ["GET", "operator", "health"] if self.token == OPERATOR_KEY:
                self._json(200, OPERATOR_HEALTH)
            case ["GET", "operator", "instance-types", "proposals"]:
                self._json(200, {"items": [TYPE_PROPOSAL], "next_cursor": None})
            case ["POST", "projects", _, "replica-limit-requests"]:
                self._json(201, LIMIT_REQUEST | body)
            case ["GET", "projects", _, "replica-limit-requests"]:
                self._page([LIMIT_REQUEST], query)
            case ["GET", "operator", "replica-limit-requests"]:
                self._page([LIMIT_REQUEST], query)
            case ["POST", "operator", "replica-limit-requests", "rlr_1", "approve" | "refuse" as verb]:
                state = "approved" if verb == "approve" else "refused"
                self._json(200, LIMIT_REQUEST | {"state": state, "current_limit": 40} | body)
            case ["GET", "operator", "nodes"]:
                self._page([NODE], query)
            case ["GET", "operator", "instance-types"]:
                self._page([one | {"enabled": True} for one in INSTANCE_TYPES], query)
            case ["POST", "operator", "instance-types"]:
                self._json(201, body | {"enabled": True})
            case ["PATCH", "operator", "instance-types", name]:
                self._json(200, {"name": name, "price_per_hour_microusd": 10_000, "enabled": True} | body)
            case ["DELETE", "operator", "instance-types" | "gateways", _]:
                self._json(204, None)
            case ["GET", "operator", "status"]:
                self._problem(403, "forbidden", "Only the operator of this installation can do this.")
            case _:
                return False
        return True
