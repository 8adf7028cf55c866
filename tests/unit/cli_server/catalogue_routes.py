"""Images, models, instance types."""

from typing import Any

from cli_server.answering import Answering
from cli_server.catalogue import (
    INSTANCE_TYPES,
    MODEL_GATED,
    MODEL_NOWHERE,
    MODEL_PLAN,
    MODEL_REFUSED,
    MODEL_REFUSED_ON,
    PREFLIGHT,
    PROPOSAL,
    TEMPLATE,
)


class CatalogueRoutes(Answering):
    def _catalogue(self, words: list[str], query: dict[str, str], body: Any) -> bool:
        """Whether it knows this path."""
        fake = self.moorage
        match words:
            case ["GET", "templates"]:
                self._page([TEMPLATE], query)
            case ["POST", "projects", _, "models", "resolve"]:
                refused = {
                    "hf:acme/gone": MODEL_REFUSED,
                    "hf:acme/gated": MODEL_GATED,
                    "hf:acme/huge": MODEL_NOWHERE,
                }
                self._json(200, refused.get(body["model"], MODEL_PLAN))
            case ["POST", "projects", _, "models", "deploy"] if _type_of(body) in MODEL_REFUSED_ON:
                self._json(422, MODEL_REFUSED_ON[_type_of(body)])
            case ["POST", "projects", _, "models", "deploy"]:
                self._json(201, fake.add_container(body.get("name") or "Qwen2.5-7B-Instruct"))
            case ["GET", "projects", _, "containers", "proposal"]:
                self._json(200, {"proposal": PROPOSAL if "vllm" in query["image"] else None})
            case ["POST", "projects", _, "containers", "preflight"]:
                exposed = PROPOSAL | {"port": 8001} if "vllm" in body["image"] else None
                found = {"image": body["image"], "ok": "absent" not in body["image"], "proposal": exposed}
                # Into what the operator built on the machine nobody looks before it starts.
                is_local = body["registry"]["provider"] == "local"
                found["entrypoint"] = None if is_local else ["python3", "-m", "serve it"]
                self._json(200, PREFLIGHT | found)
            case ["GET", "instance-types"]:
                self._page(INSTANCE_TYPES, query)
            case _:
                return False
        return True


def _type_of(body: Any) -> str | None:
    name: str | None = body.get("resources", {}).get("instance_type")
    return name
