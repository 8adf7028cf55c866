"""The API's description of itself: what FastAPI knows of the routes, and with each who may call it, an example, and the errors
that it can answer with."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from shlex import quote
from typing import Any

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from moorage.entrypoints.description.example_values import PATHS, TEXTS
from moorage.entrypoints.description.examples import Examples
from moorage.entrypoints.description.meanings import MEANINGS
from moorage.entrypoints.description.routes import RouteFacts, Who, written_routes
from moorage.kit.web import SAFE_METHODS
from moorage.organizations.permissions import Permission, Role, allows

PROBLEM = "application/problem+json"
_JSON = "application/json"
_ADDRESS = "https://moorage.example.com"

_INTRODUCTION = """\
The console and the `moor` command line do everything through this API.

**Who asks.** Send `Authorization: Bearer …` with a session token, a key of scope `manage`, or the operator's key. A browser's
session is a cookie; with it, whatever changes something also carries the `X-CSRF-Token` that `/api/v1/me` returns.

**Lists** are `{"items", "next_cursor"}`: send `next_cursor` as `cursor` for the next page.

**Errors** are `application/problem+json` (RFC 9457) with a stable `code`, a `detail` that says what to do, and a
`request_id`. What you may not see answers as what is not there: 404. The gateway in front may answer 502, 503 or 504 with the
code `unavailable` while the API restarts.

**Repeating** a POST is safe with an `Idempotency-Key`: the second one gets the answer of the first.

**Money** is an integer number of micro-dollars in fields that end in `_microusd`.
"""

_EVERYWHERE = {429: ("too_many_at_once",), 500: ("internal_error",), 503: ("busy", "unavailable")}
_OF_CHANGES = {
    403: ("foreign_origin",),
    408: ("body_too_slow",),
    413: ("body_too_large",),
    429: ("too_many_bodies",),
}
"""What middleware, the database and the gateway answer, before or beside a route's own function."""

_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "An error (RFC 9457).",
    "required": ["type", "title", "status", "code", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "title": "Type"},
        "title": {"type": "string", "title": "Title"},
        "status": {"type": "integer", "title": "Status"},
        "code": {"type": "string", "title": "Code", "description": "Stable; programs decide by it."},
        "detail": {"type": "string", "title": "Detail", "description": "A sentence for people."},
        "request_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Request Id"},
        "missing_microusd": {
            "type": "integer",
            "title": "Missing Microusd",
            "description": "With `insufficient_credit`: how much is missing.",
        },
        "errors": {
            "type": "array",
            "title": "Errors",
            "description": "With `invalid_input`: what is wrong with which field.",
            "items": {"$ref": "#/components/schemas/ProblemField"},
        },
    },
}
_PROBLEM_FIELD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "ProblemField",
    "required": ["field", "message"],
    "properties": {
        "field": {"type": "string", "title": "Field"},
        "message": {"type": "string", "title": "Message"},
    },
}

_DONE = {
    200: "Done.",
    201: "Created.",
    202: "Accepted. It happens from now on.",
    204: "Done. There is no body.",
    303: "The browser goes on to another address.",
}
_DONE_ALSO = {
    200: "Nothing needed to change.",
    202: "It waits for somebody's decision.",
    503: "It is not ready.",
}

_MOST_CODES_IN_A_NAME = 4
"""Up to here several routes have the same errors, and one description of them."""

_UNKNOWN = "The answer's `detail` says what is wrong."
"""A test says which codes have no meaning in the table."""

_SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A session token, a key of scope `manage`, or the operator's key.",
    }
}

_WHO = {
    Who.ANYBODY: "Anybody may call it.",
    Who.MACHINE: "Only the machine itself may call it, with its secret.",
    Who.OPERATOR: "Only the operator of the installation may call it.",
    Who.ACTOR: "Any person who is signed in and any `manage` key may call it.",
    Who.PERSON: "Any person who is signed in may call it; API keys may not.",
}


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    document = get_openapi(title="Moorage", version="1", description=_INTRODUCTION, routes=routes)
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["schemas"] |= {"Problem": _PROBLEM_SCHEMA, "ProblemField": _PROBLEM_FIELD_SCHEMA}
    components |= {"responses": {}, "examples": {}, "securitySchemes": _SECURITY_SCHEMES}
    _name_operations(document["paths"])
    facts, examples = written_routes(), Examples(components["schemas"])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            its_facts = facts.get(f"{method.upper()} {path}")
            if its_facts is None:
                continue  # Newer than what is written down; a test names it.
            _say_who(operation, its_facts)
            _show(path, operation, examples, components)
            _say_what_else(operation, its_facts)
            _list_errors(method.upper(), operation, its_facts, components)
            curl = _curl(method.upper(), path, operation, its_facts)
            operation["x-codeSamples"] = [{"lang": "Shell", "source": curl}]
    return document


def _name_operations(paths: dict[str, Any]) -> None:
    """After their functions, which FastAPI puts before the path; where two have one name, with what their path begins with."""
    names = {
        (path, method): operation["operationId"].removesuffix(re.sub(r"\W", "_", f"{path}_{method}"))
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    times = Counter(names.values())
    for (path, method), name in names.items():
        first = path.removeprefix("/api/v1").split("/")[1]
        unique = name if times[name] == 1 else f"{name}-{first}"
        paths[path][method]["operationId"] = unique.replace("_", "-")


def _say_who(operation: dict[str, Any], facts: RouteFacts) -> None:
    operation["description"] = f"{operation['description']}\n\n{_who(facts)}"
    operation["security"] = [] if facts.who is Who.ANYBODY else [{"bearer": []}]


def _who(facts: RouteFacts) -> str:
    if facts.permission is None:
        return _WHO[facts.who]
    permission = Permission(facts.permission)
    of_users = allows(Role.USER, permission)
    if facts.who is Who.LENDER:
        who = "members" if of_users else "admins"
        return f"The operator and {who} of the organization that lends the machine may call it (`{permission}`); API keys may not."
    if facts.who is Who.MEMBER:
        who = "Members of the organization" if of_users else "Admins of the organization"
        return f"{who} may call it (`{permission}`); API keys may not."
    if not of_users:
        return f"Admins of the organization may call it (`{permission}`); API keys may not."
    return f"Members of the project and its `manage` keys may call it (`{permission}`)."


def _show(path: str, operation: dict[str, Any], examples: Examples, components: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["example"] = PATHS[parameter["name"]]
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["example"] = examples.request(media["schema"])
    operation["responses"].pop("422", None)  # FastAPI's own; ours looks different.
    for answer in operation["responses"].values():
        content = answer.get("content", {})
        if _JSON in content:
            schema = content[_JSON]["schema"]
            name = schema["$ref"].rsplit("/", 1)[1]
            components["examples"][name] = {"value": examples.answer(schema)}
            content[_JSON]["examples"] = {name: {"$ref": f"#/components/examples/{name}"}}
        elif content:
            # A new one each: routes share what they declare.
            answer["content"] = {media_type: _text(path, media) for media_type, media in content.items()}


def _text(path: str, media: dict[str, Any]) -> dict[str, Any]:
    example = next((text for ending, text in TEXTS.items() if path.endswith(ending)), None)
    return {"schema": {"type": "string"}, **media, **({"example": example} if example is not None else {})}


def _say_what_else(operation: dict[str, Any], facts: RouteFacts) -> None:
    """In which cases it answers as it declares, and in which with another status."""
    answers = operation["responses"]
    declared = next(iter(answers))
    if answers[declared]["description"] == "Successful Response":
        answers[declared]["description"] = _DONE[int(declared)]
    for status in facts.also:
        answers[str(status)] = {**answers[declared], "description": _DONE_ALSO[status]}


def _list_errors(
    method: str, operation: dict[str, Any], facts: RouteFacts, components: dict[str, Any]
) -> None:
    errors: dict[int, set[str]] = {int(status): set(codes) for status, codes in facts.errors.items()}
    for also in (_EVERYWHERE,) if method in SAFE_METHODS else (_EVERYWHERE, _OF_CHANGES):
        for status, codes in also.items():
            errors.setdefault(status, set()).update(codes)
    if "requestBody" in operation or operation.get("parameters"):
        errors.setdefault(422, set()).add("invalid_input")
    answers = operation["responses"]
    for status, found in sorted(errors.items()):
        error = _error(status, sorted(found))
        for code in found:
            components["examples"].setdefault(f"{status}-{code}", _problem_example(status, code))
        if str(status) in answers:  # `/readyz` says so itself that it is not ready.
            answers[str(status)] = _either(answers[str(status)], error)
        elif len(found) > _MOST_CODES_IN_A_NAME:
            answers[str(status)] = error
        else:
            name = "-".join((str(status), *sorted(found)))
            components["responses"][name] = error
            answers[str(status)] = {"$ref": f"#/components/responses/{name}"}


def _error(status: int, codes: Sequence[str]) -> dict[str, Any]:
    examples = {code: {"$ref": f"#/components/examples/{status}-{code}"} for code in codes}
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": "\n".join(f"- `{code}`: {MEANINGS.get(code, _UNKNOWN)}" for code in codes),
        "content": {PROBLEM: {"schema": schema, "examples": examples}},
    }


def _either(answer: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": f"{answer['description']}\n\n{error['description']}",
        "content": {**answer["content"], **error["content"]},
    }


def _problem_example(status: int, code: str) -> dict[str, Any]:
    meaning = MEANINGS.get(code, _UNKNOWN)
    value: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": meaning,
        "request_id": PATHS["request_id"],
    }
    if code == "insufficient_credit":
        value["missing_microusd"] = 1_550_000
    if code == "invalid_input":
        value["errors"] = [{"field": "name", "message": "must not be empty"}]
    return {"summary": meaning, "value": value}


def _curl(method: str, path: str, operation: dict[str, Any], facts: RouteFacts) -> str:
    parts = ["curl" if method == "GET" else f"curl -X {method}"]
    parts.append(quote(_ADDRESS + path.format(**PATHS)))
    if facts.who is not Who.ANYBODY:
        secret = "$MACHINE_SECRET" if facts.who is Who.MACHINE else "$MOORAGE_KEY"
        parts.append(f'-H "Authorization: Bearer {secret}"')
    content = operation.get("requestBody", {}).get("content", {})
    if _JSON in content:
        parts += [f"-H 'Content-Type: {_JSON}'", f"-d {quote(json.dumps(content[_JSON]['example']))}"]
    return " \\\n  ".join(parts)
