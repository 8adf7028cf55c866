"""Writes the command line's client from the API's description: types of what is sent and answered, and a method for each
operation. Pure.

The types are `TypedDict`s: what a checker knows costs nothing when `moor` starts, and an answer is passed on as it came.
"""

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_PREFIX = "/api/v1"
_JSON = "application/json"
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_GENERATED = "Generated from the API's description by `python -m moorage.entrypoints.description.write`."


def types_text(document: Mapping[str, Any]) -> str:
    lines = [
        f'"""What the API takes and answers. {_GENERATED}"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict",
    ]
    for name, schema in document["components"]["schemas"].items():
        if "properties" in schema:
            lines += _typed_dict(type_name(name), schema)
        else:
            lines += ["", f"{type_name(name)}: TypeAlias = {_type(schema)}"]
    return "\n".join(lines) + "\n"


def calls_text(document: Mapping[str, Any]) -> str:
    lines = [
        f'"""The API\'s operations, each as a method. {_GENERATED}"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Iterator",
        "from typing import TYPE_CHECKING, Any, Literal, cast",
        "from urllib.parse import quote",
        "",
        "if TYPE_CHECKING:",
        "    from moorage_cli.api import types",
        "    from moorage_cli.client import ApiClient",
        "",
        "",
        "class Api:",
        "    def __init__(self, client: ApiClient) -> None:",
        "        self._client = client",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += _method(document, method.upper(), path, operation)
    lines += [
        "",
        "",
        "def _part(text: str) -> str:",
        '    """An id as typed, kept from becoming another path."""',
        '    return quote(text, safe="")',
    ]
    return "\n".join(lines) + "\n"


def type_name(schema_name: str) -> str:
    """`Page_Container_` → `PageContainer`; of two with one name, the module goes before: `EnginesDiagnosisOutcome`."""
    parts = re.split(r"[^A-Za-z0-9]+", schema_name.removeprefix("moorage__"))
    return "".join(part[:1].upper() + part[1:] for part in parts)


def _typed_dict(name: str, schema: Schema) -> list[str]:
    required = schema.get("required", ())
    fields = {
        field: _type(one) if field in required else f"NotRequired[{_type(one)}]"
        for field, one in schema["properties"].items()
    }
    if any(keyword.iskeyword(field) for field in fields):
        entries = [f'    "{field}": "{kind}",' for field, kind in fields.items()]
        return ["", f'{name} = TypedDict("{name}", {{', *entries, "})"]
    return ["", "", f"class {name}(TypedDict):", *(f"    {field}: {kind}" for field, kind in fields.items())]


def _type(schema: Schema, prefix: str = "") -> str:
    if "$ref" in schema:
        return prefix + type_name(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema or "enum" in schema:
        return f"Literal[{', '.join(_literal(one) for one in schema.get('enum', [schema.get('const')]))}]"
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in schema:
            return " | ".join(dict.fromkeys(_type(one, prefix) for one in schema[alternatives]))
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items', {}), prefix)}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values, prefix)}]" if isinstance(values, Mapping) else "dict[str, Any]"
    return _PLAIN.get(schema.get("type", ""), "Any")


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _method(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    """None for what is asked for elsewhere (`/readyz`) or answered as something else than JSON."""
    answer = _answer(operation)
    if not path.startswith(f"{_PREFIX}/") or answer is None:
        return
    body = operation.get("requestBody")
    parameters = ["self", *_path_parameters(path), *_body_parameter(body), *_query_parameters(operation)]
    arguments = []
    queried = _queried(operation)
    if queried:
        sent = ", ".join(f'"{name}": {_argument(name)}' for name in queried)
        arguments.append(f"params={{{sent}}}")
    if body is not None:
        arguments.append("body=cast(Any, body)")
    address = re.sub(r"\{([a-z_]+)\}", r"{_part(\1)}", path.removeprefix(_PREFIX))
    told = f'f"{address}"' if "{" in address else f'"{address}"'
    item = _item(document, answer)
    result = f"Iterator[{item}]" if item else answer
    name = operation["operationId"].replace("-", "_")
    yield from (
        "",
        f"    def {name}({', '.join(parameters)}) -> {result}:",
        f'        """{operation["summary"]}."""',
    )
    if item:
        yield f'        return cast("{result}", self._client.pages({", ".join([told, *arguments])}))'
    elif answer == "None":
        yield f"        self._client.request({', '.join([_literal(method), told, *arguments])})"
    else:
        call = f"self._client.request({', '.join([_literal(method), told, *arguments])}).body"
        yield f'        return cast("{result}", {call})'


def _answer(operation: Mapping[str, Any]) -> str | None:
    described = next(iter(operation["responses"].values()))
    content = described.get("content", {})
    if not content:
        return "None" if "204" in operation["responses"] else None
    return _type(content[_JSON]["schema"], "types.") if _JSON in content else None


def _item(document: Mapping[str, Any], answer: str) -> str | None:
    """What a list is of, if it is one that goes on with a cursor."""
    for name, schema in document["components"]["schemas"].items():
        fields = schema.get("properties", {})
        if f"types.{type_name(name)}" == answer and set(fields) == {"items", "next_cursor"}:
            return _type(fields["items"]["items"], "types.")
    return None


def _path_parameters(path: str) -> list[str]:
    """In the order in which people read them; the description has another."""
    return [f"{name}: str" for name in re.findall(r"\{([a-z_]+)\}", path)]


def _body_parameter(body: Mapping[str, Any] | None) -> list[str]:
    if body is None:
        return []
    schema = body["content"][_JSON]["schema"]
    if body.get("required", False):
        return [f"body: {_type(schema, 'types.')}"]
    kinds = dict.fromkeys((*_type(schema, "types.").split(" | "), "None"))
    return [f"body: {' | '.join(kinds)} = None"]


def _query_parameters(operation: Mapping[str, Any]) -> list[str]:
    """None stands for what is not sent: then the API's own default holds."""
    found = {
        one["name"]: _type(one["schema"], "types.")
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one["name"] in _queried(operation)
    }
    told = [
        f"{_argument(name)}: {' | '.join(dict.fromkeys((*kind.split(' | '), 'None')))} = None"
        for name, kind in found.items()
    ]
    return ["*", *told] if told else []


def _queried(operation: Mapping[str, Any]) -> list[str]:
    # Whoever reads a list reads on by itself.
    return [
        one["name"]
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one["name"] != "cursor"
    ]


def _argument(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
