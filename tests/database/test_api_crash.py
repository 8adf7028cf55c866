"""The API never crashes: requests made from its own description, valid and broken, to every route."""

import json
import random
import re
from collections import Counter
from typing import Any

import httpx
import pytest
import structlog.testing
from api_support import ANONYMOUS, BASE_URL, SMALL, Api, Asker, new_home
from api_support import api_fixture as api_fixture

CASES = 5_000
TEXTS = (
    "", "x", "a\x00b", "\ud800", "x" * 5_000, "ﷺ" * 70, "../..", "%00", "'; --", "local/a", SMALL, "a@b", "null", "-1",
    "2099-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0000-00-00", "admin", "inference", "true", "<b>", "{}",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, 10**400, 1e308, 1.5)
ODDITIES = (None, True, [], {}, [[]], {"": None}, *NUMBERS, *TEXTS)


class Maker:
    """Values for the description's schemas: mostly fitting, sometimes anything."""

    def __init__(self, description: dict[str, Any], known: dict[str, str]) -> None:
        self.random = random.Random(20260101)
        self.description, self.known = description, known

    def body(self, schema: dict[str, Any]) -> Any:
        return self._value(schema, depth=0)

    def parameter(self, name: str, schema: dict[str, Any]) -> str:
        if name in self.known and self.random.random() < 0.8:
            return self.known[name]
        value = self._value(schema, depth=0)
        return value if isinstance(value, str) else json.dumps(value)

    def _value(self, schema: dict[str, Any], depth: int) -> Any:
        if self.random.random() < 0.12 or depth > 6:
            return self.random.choice(ODDITIES)
        if "$ref" in schema:
            return self._value(self._resolved(schema["$ref"]), depth)
        for choice in ("anyOf", "oneOf", "allOf"):
            if choice in schema:
                return self._value(self.random.choice(schema[choice]), depth + 1)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return [self._value(schema.get("items", {}), depth + 1) for _ in range(self.random.randrange(3))]
        if kind == "integer":
            return self.random.choice((schema.get("minimum", 1), schema.get("maximum", 10), 5, *NUMBERS))
        if kind == "boolean":
            return self.random.random() < 0.5
        return self.random.choice(TEXTS)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        made = {
            name: self._value(inner, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if self.random.random() < (0.95 if name in required else 0.4)
        }
        if self.random.random() < 0.05 or isinstance(schema.get("additionalProperties"), dict):
            made[self.random.choice(TEXTS)] = self.random.choice(ODDITIES)
        return made

    def _resolved(self, reference: str) -> dict[str, Any]:
        found: Any = self.description
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return dict(found)


@pytest.mark.long
async def test_never_a_5xx(api: Api) -> None:
    home = await new_home(api)
    description = (await api.ask(ANONYMOUS, "GET", "/openapi.json")).json()
    operations = [
        (method.upper(), path, details)
        for path, methods in description["paths"].items()
        for method, details in methods.items()
        # It says 503 by design while no machine runs.
        if path != "/api/v1/projects/{project_id}/containers/preflight"
    ]
    known = {"organization_id": home.organization_id, "project_id": home.project_id, "user_id": home.user_id}
    maker = Maker(description, known)
    statuses: Counter[int] = Counter()
    touched: set[tuple[str, str]] = set()
    askers = (home.admin, home.admin, home.admin, api.operator, ANONYMOUS)
    transport = httpx.ASGITransport(api.app, raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url=BASE_URL, trust_env=False)
    for number in range(CASES):
        if number % 500 == 0:  # whatever the cases before did to them
            container_id = await api.new_container(home.project_id, f"chat {number}")
            key_id, _ = await api.new_key(home.project_id, "inference", name=f"key {number}")
            maker.known |= {"container_id": container_id, "key_id": key_id}
        if number % 20 == 0:
            await _mend(api, home.organization_id)
        method, path, details = operations[number % len(operations)]
        touched.add((method, path))
        statuses[await _ask(client, maker, maker.random.choice(askers), method, path, details)] += 1
    await client.aclose()
    assert len(touched) == len(operations)
    assert sum(statuses.values()) == CASES
    print(f"{CASES} cases on {len(operations)} operations, 0 answered 5xx: {dict(sorted(statuses.items()))}")


async def _ask(
    client: httpx.AsyncClient, maker: Maker, asker: Asker, method: str, path: str, details: dict[str, Any]
) -> int:
    query: dict[str, str] = {}
    for parameter in details.get("parameters", ()):
        value = maker.parameter(parameter["name"], parameter.get("schema", {}))
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", _quoted(value))
        elif parameter["in"] == "query" and maker.random.random() < 0.5:
            query[parameter["name"]] = value
    schema = next(iter(details.get("requestBody", {}).get("content", {}).values()), {}).get("schema")
    content = json.dumps(maker.body(schema)) if schema is not None else None
    headers = {"Content-Type": "application/json"} if content is not None else {}
    url = f"{path}?{'&'.join(f'{name}={_quoted(value)}' for name, value in query.items())}"
    with structlog.testing.capture_logs() as logged:
        answer = await client.request(method, url, content=content, headers={**asker.headers, **headers})
        client.cookies.clear()
    assert answer.status_code < 500, f"{method} {url}\n{content}\n{logged}"
    return answer.status_code


async def _mend(api: Api, organization_id: str) -> None:
    """The asker may have left, signed out or suspended itself."""
    await api.execute("UPDATE sessions SET ended_at = NULL, last_used_at = now()")
    await api.execute("UPDATE organizations SET suspended_at = NULL")
    await api.execute("UPDATE projects SET deleted_at = NULL WHERE organization_id = :id", id=organization_id)
    await api.execute(
        "UPDATE organization_members SET role = 'admin' WHERE organization_id = :id", id=organization_id
    )


def _quoted(text: str) -> str:
    kept = re.compile(rb"[A-Za-z0-9_.~-]")
    raw = text.encode("utf-8", "surrogatepass")
    return "".join(chr(one) if kept.match(bytes([one])) else f"%{one:02X}" for one in raw) or "x"
