"""API keys."""

from typing import Any

from cli_server.answering import Answering
from cli_server.times import CREATED_AT


class KeyRoutes(Answering):
    def _keys(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        fake = self.moorage
        match words:
            case ["GET", "projects", _, "api-keys"]:
                self._page(fake.keys, query)
            case ["POST", "projects", project_id, "api-keys"]:
                key = {
                    "id": f"key_{len(fake.keys)}",
                    "project_id": project_id,
                    "hint": "wxyz",
                    "status": "active",
                    "message": None,
                    "revoked_at": None,
                    "requests_per_minute": None,
                    "last_used_at": None,
                    "last_used_from": None,
                }
                fake.keys.append({**key, "created_at": CREATED_AT, "expires_at": None, **body})
                self._json(201, {**fake.keys[-1], "key": "moor_secret"})
            case ["POST", "api-keys", key_id, "rotate"]:
                old = next(one for one in fake.keys if one["id"] == key_id)
                fake.keys.append({**old, "id": f"key_{len(fake.keys)}", "replaces": key_id})
                self._json(201, {**fake.keys[-1], "key": "moor_rotated"})
            case ["PATCH", "api-keys", key_id]:
                changed = next(one for one in fake.keys if one["id"] == key_id)
                if "disabled" in body:
                    changed["status"] = "disabled" if body["disabled"] else "active"
                changed.update({name: value for name, value in body.items() if name != "disabled"})
                self._json(200, changed)
            case ["GET", "api-keys", key_id]:
                self._one([one for one in fake.keys if one["id"] == key_id])
            case ["DELETE", "api-keys", key_id]:
                fake.keys = [one for one in fake.keys if one["id"] != key_id]
                self._json(204, None)
            case _:
                return False
        return True
