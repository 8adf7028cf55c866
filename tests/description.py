"""The API's own description, to hold answers to: those of the real API, and those of whatever stands in for it."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from moorage.entrypoints.api import described_routes
from moorage.entrypoints.description.document import PROBLEM, describe
from moorage.entrypoints.description.examples import Examples


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    described: dict[str, Any]

    def answer(self, status: int) -> dict[str, Any] | None:
        found = self.described["responses"].get(str(status))
        return None if found is None else resolved(found)

    def codes(self, status: int) -> set[str]:
        answer = self.answer(status) or {}
        return set(answer.get("content", {}).get(PROBLEM, {}).get("examples", {}))

    def why_not_answer(self, status: int, body: Any) -> list[str]:
        """What is wrong with this JSON as an answer; nothing where it is described so."""
        answer = self.answer(status)
        if answer is None:
            return [f"{self.method} {self.path} is not described to answer {status}"]
        schema = self.schema(status)
        if schema is None:
            return [f"{self.method} {self.path} {status}: not described to have a JSON body"] if body else []
        wrong = [*_problems(schema, body), *unknown_fields(schema, body)]
        return [f"{self.method} {self.path} {status} {problem}" for problem in wrong]

    def schema(self, status: int) -> dict[str, Any] | None:
        """Of the JSON that it answers with this status."""
        content = (self.answer(status) or {}).get("content", {})
        found: dict[str, Any] | None = content.get("application/json", {}).get("schema")
        return found

    def why_not_request(self, body: Any) -> list[str]:
        media = self.described.get("requestBody", {}).get("content", {}).get("application/json")
        if media is None:
            return [f"{self.method} {self.path}: not described to take a body"] if body else []
        if body is None and not self.described["requestBody"].get("required", False):
            return []
        return [
            f"{self.method} {self.path} request {problem}" for problem in _problems(media["schema"], body)
        ]


@cache
def document() -> dict[str, Any]:
    return describe(described_routes())


def operation(method: str, path: str) -> Operation | None:
    """By an address as it is asked for, e.g. `GET /api/v1/containers/ctr_1`. Paths without names go first."""
    for pattern, template in _patterns():
        if pattern.fullmatch(path) and method.lower() in document()["paths"][template]:
            return Operation(method, template, document()["paths"][template][method.lower()])
    return None


def resolved(what: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in what:
        _, _, kind, name = what["$ref"].split("/")
        what = document()["components"][kind][name]
    return what


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    templates = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", template)), template) for template in templates]


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    whole = {**schema, "components": {"schemas": document()["components"]["schemas"]}}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]


def completed(schema: dict[str, Any], value: Any) -> Any:
    """What a story says of an answer, and what it does not say as the description has it: null or the default where it can be,
    else its example. A field that the description does not know stays, and is found to be wrong."""
    schema = resolved(schema)
    if isinstance(value, list) and "items" in schema:
        return [completed(schema["items"], one) for one in value]
    if not isinstance(value, dict):
        return value
    if "properties" not in schema:
        objects = [
            one for one in schema.get("anyOf", schema.get("oneOf", ())) if "properties" in resolved(one)
        ]
        known = [one for one in objects if value.keys() <= resolved(one)["properties"].keys()]
        return completed(known[0], value) if known else value
    unknown = value.keys() - schema["properties"].keys()
    said = {name: completed(one, value[name]) for name, one in schema["properties"].items() if name in value}
    unsaid = {name: _unsaid(schema, name) for name in schema["properties"] if name not in value}
    return {**said, **unsaid, **{name: value[name] for name in unknown}}


def unknown_fields(schema: dict[str, Any], value: Any, at: str = "$") -> list[str]:
    """Fields that a reader of the description would not expect. Schemas of answers allow them, so that old clients go on."""
    schema = resolved(schema)
    if isinstance(value, list) and "items" in schema:
        return [
            one
            for index, item in enumerate(value)
            for one in unknown_fields(schema["items"], item, f"{at}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    alternatives = [resolved(one) for one in schema.get("anyOf", schema.get("oneOf", ()))]
    if alternatives:
        return min((unknown_fields(one, value, at) for one in alternatives), key=len)
    if "properties" not in schema:
        return []
    strange = [f"{at}.{name}: not described" for name in value.keys() - schema["properties"].keys()]
    inner = (
        unknown_fields(one, value[name], f"{at}.{name}")
        for name, one in schema["properties"].items()
        if name in value
    )
    return strange + [one for found in inner for one in found]


def _unsaid(owner: dict[str, Any], name: str) -> Any:
    schema = owner["properties"][name]
    if any(one.get("type") == "null" for one in schema.get("anyOf", ())):
        return None
    if "default" in schema:
        return schema["default"]
    # A schema is named by its title, except the pages of lists, of which every field is said.
    return _examples(owner["title"])[name]


@cache
def _examples(schema_name: str) -> Any:
    return Examples(document()["components"]["schemas"]).answer(
        {"$ref": f"#/components/schemas/{schema_name}"}
    )
