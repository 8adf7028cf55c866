"""The API's description of itself: that it is complete, that its examples are what they claim to be, and that what it says of
errors and of who may call is what the code says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from moorage.entrypoints.api import described_routes
from moorage.entrypoints.description.document import PROBLEM, describe
from moorage.entrypoints.description.examples import Examples
from moorage.entrypoints.description.meanings import MEANINGS
from moorage.entrypoints.description.routes import Who, written_routes
from moorage.entrypoints.description.write import generated

SOURCES = Path(__file__).parents[2] / "src/moorage"
FILES = ("application/pdf", "application/gzip")
"""Of these nobody wants to read an example."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return describe(described_routes())


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def resolved(document: dict[str, Any], what: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in what:
        _, _, kind, name = what["$ref"].split("/")
        what = document["components"][kind][name]
    return what


def answers(document: dict[str, Any], operation: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {int(status): resolved(document, one) for status, one in operation["responses"].items()}


def examples(document: dict[str, Any], media: dict[str, Any]) -> list[Any]:
    named = [resolved(document, one)["value"] for one in media.get("examples", {}).values()]
    return [*named, *([media["example"]] if "example" in media else [])]


def contents(
    document: dict[str, Any], operation: dict[str, Any]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for media_type, media in operation.get("requestBody", {}).get("content", {}).items():
        yield "request", media_type, media
    for status, answer in answers(document, operation).items():
        for media_type, media in answer.get("content", {}).items():
            yield str(status), media_type, media


def test_every_route_describes_itself(document: dict[str, Any]) -> None:
    lacking: list[str] = []
    summaries: dict[str, list[str]] = {}
    for route, operation in operations(document):
        function_name = operation["operationId"].replace("-", " ").title()
        if not operation.get("summary") or operation["summary"] == function_name:
            lacking.append(f"{route}: a summary of its own")
        if len(operation.get("description", "").split("\n\n")) < 2:
            lacking.append(f"{route}: what it does, and who may call it")
        if not any(status >= 400 for status in answers(document, operation)):
            lacking.append(f"{route}: the errors that it answers with")
        if "x-codeSamples" not in operation:
            lacking.append(f"{route}: a call as an example")
        for where, media_type, media in contents(document, operation):
            if media_type not in FILES and not examples(document, media):
                lacking.append(f"{route}: an example of its {where} ({media_type})")
        summaries.setdefault(operation["summary"], []).append(route)
    assert lacking == []
    assert {text: routes for text, routes in summaries.items() if len(routes) > 1} == {}


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert {"start-container", "list-logs-containers", "list-logs-projects"} <= set(names)


def test_every_example_is_valid(document: dict[str, Any]) -> None:
    wrong = []
    checked = 0
    for route, operation in operations(document):
        for where, _, media in contents(document, operation):
            schema = {**media.get("schema", {}), "components": document["components"]}
            validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
            for example in examples(document, media):
                checked += 1
                wrong += [
                    f"{route} {where} {error.json_path}: {error.message}"
                    for error in validator.iter_errors(example)
                ]
    assert wrong == []
    assert checked > 1000, "the errors' examples are among them"


def test_every_field_of_an_example_is_chosen(document: dict[str, Any]) -> None:
    made = Examples(document["components"]["schemas"])
    for _, operation in operations(document):
        for where, media_type, media in contents(document, operation):
            if media_type == "application/json":
                made.request(media["schema"]) if where == "request" else made.answer(media["schema"])
    assert made.without_value == set(), "say in description/example_values.py what these are like"


def test_what_is_generated_is_current() -> None:
    for path, text in generated():
        assert path.read_text() == text, "run: python -m moorage.entrypoints.description.write"


def test_every_code_has_a_meaning_and_exists_in_the_code(document: dict[str, Any]) -> None:
    named = {
        code
        for _, operation in operations(document)
        for answer in answers(document, operation).values()
        for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})
    }
    assert named - MEANINGS.keys() == set(), "say in description/meanings.py what these mean"
    assert MEANINGS.keys() - named == set(), "no route answers with these: forget them"
    source = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if "description" not in path.parts)
    composed = {
        "rolling_not_possible": "_not_possible",
        "payout_confirmed": '"confirmed"',
        "payout_refused": '"refused"',
        "transfer_confirmed": '"confirmed"',
        "transfer_expired": '"expired"',
    }
    assert {
        code
        for code in named
        if f'"{composed.get(code, code)}"' not in source and composed.get(code, "\0") not in source
    } == set()


def test_known_routes() -> None:
    """What the reader of the code finds, where a person looked too."""
    facts = written_routes()
    start = facts["POST /api/v1/containers/{container_id}/start"]
    assert start.who is Who.PROJECT
    assert start.permission == "container.manage"
    assert start.also == [200]
    assert start.errors["402"] == ["insufficient_credit"]
    assert set(start.errors["409"]) >= {"container_deleting", "spending_limit"}
    assert "start_limit" in start.errors["429"]
    deploy = facts["POST /api/v1/projects/{project_id}/models/deploy"]
    assert {"model_does_not_fit", "no_template", "model_gated"} <= set(deploy.errors["422"])
    resolve = facts["POST /api/v1/projects/{project_id}/models/resolve"]
    assert "model_gated" not in resolve.errors["422"], "it is caught, and told in the answer"
    assert facts["GET /api/v1/me"].errors == {
        "401": ["authentication_failed"],
        "429": ["too_many_at_once"],
        "503": ["busy"],
    }
    assert facts["GET /api/v1/projects/{project_id}/logs"].who is Who.PROJECT
