"""How an API server chooses and changes objects: selectors, JSON patches, merge patches. Pure."""

import copy
from collections.abc import Mapping
from typing import Any


class PatchError(Exception):
    """With the status that the API server answers."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def matches_labels(labels: Mapping[str, str], selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        if "!=" in term:
            name, _, value = term.partition("!=")
            if labels.get(name) == value:
                return False
        elif "=" in term:
            name, _, value = term.replace("==", "=").partition("=")
            if labels.get(name) != value:
                return False
        elif term.startswith("!"):
            if term[1:] in labels:
                return False
        elif term not in labels:
            return False
    return True


def matches_fields(item: Mapping[str, Any], selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        unequal = "!=" in term
        path, _, value = term.partition("!=" if unequal else "=")
        found: Any = item
        for part in path.split("."):
            found = (found or {}).get(part)
        if ((found or "") == value) == unequal:
            return False
    return True


def json_patched(item: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    changed = copy.deepcopy(item)
    for operation in operations:
        *parents, last = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        )
        where: Any = changed
        for part in parents:
            where = where[int(part)] if isinstance(where, list) else where.get(part)
            if where is None:
                raise PatchError(422, "the server rejected our request due to an error in our request")
        key: Any = int(last) if isinstance(where, list) else last
        there = where[key] if isinstance(where, list) else where.get(key)
        match operation["op"]:
            case "test":
                if there != operation["value"]:
                    raise PatchError(422, "the server rejected our request due to an error in our request")
            case "remove":
                if there is None:
                    raise PatchError(422, "the server rejected our request due to an error in our request")
                del where[key]
            case "add" | "replace":
                where[key] = operation["value"]
    return changed


def merged(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
