"""The Helm chart, written from the same objects that `moor kubernetes manifests` prints. Pure: paths and texts.

`python -m moorage.entrypoints.kubernetes.chart deploy/helm/moorage` writes it (`make chart`), and a test compares.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moorage.entrypoints.kubernetes.installation import installation_objects
from moorage.entrypoints.kubernetes.tree import SENTINELS, Action, SettingsEntries, Templated, When
from moorage.entrypoints.kubernetes.values import VALUES, Value, schema_of

_HEAD = "# Written by `make chart`; edit src/moorage/entrypoints/kubernetes instead.\n"
_HELPERS = """\
{{- define "moorage.installationId" -}}
{{- .Values.installationId | default (printf "ins_%s" (printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 20)) -}}
{{- end -}}
{{- define "moorage.namespacePrefix" -}}
{{- printf "m-%s-" (include "moorage.installationId" . | sha256sum | trunc 8) -}}
{{- end -}}
{{- define "moorage.pullAddress" -}}
{{- .Values.pulls.address | default (printf "127.0.0.1:%d" (.Values.pulls.nodePort | int)) -}}
{{- end -}}
"""
_NOTES = """\
Moorage {{ .Chart.AppVersion }} is installed in {{ .Release.Namespace }}, as {{ include "moorage.installationId" . }}.

Connections to Postgres, at most: {{ add (mul 20 .Values.api.replicas) (mul 20 .Values.controller.replicas) (mul 4 .Values.gateway.replicas) }}.
Nodes pull replicas' images from {{ include "moorage.pullAddress" . }}, plain HTTP.
{{- if not .Values.localRegistry }}
localRegistry is not set: whether nodes keep containers apart cannot be tried, so nothing starts unless isolation is waived.
{{- end }}

What is missing in the cluster: kubectl exec deploy/moorage-controller -n {{ .Release.Namespace }} -- moor kubernetes check
The operator signs in: kubectl exec deploy/moorage-api -n {{ .Release.Namespace }} -- moor sign-in-link
"""
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")


def chart_files() -> dict[str, str]:
    templates = {
        f"templates/{name}.yaml": _HEAD + "".join(f"---\n{''.join(_lines(body, 0))}" for body in bodies)
        for name, bodies in installation_objects(Templated()).items()
    }
    return {
        "Chart.yaml": _chart(),
        "values.yaml": _values_file(),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "templates/_helpers.tpl": _HELPERS,
        "templates/NOTES.txt": _NOTES,
        **templates,
    }


def _chart() -> str:
    number = version("moorage")
    return (
        f"{_HEAD}apiVersion: v2\nname: moorage\ndescription: A cloud service that deploys containers for AI inference.\n"
        f'type: application\nversion: "{number}"\nappVersion: "{number}"\nkubeVersion: ">=1.32.0-0"\n'
    )


def _lines(node: dict[str, Any], indent: int) -> Iterator[str]:
    for key, value in node.items():
        name = key if _PLAIN_KEY.fullmatch(key) else json.dumps(key)
        if isinstance(value, When):
            yield f"{{{{- if {value.condition} }}}}\n"
            yield from _entry(f"{' ' * indent}{name}:", value.node, indent)
            yield "{{- end }}\n"
        else:
            yield from _entry(f"{' ' * indent}{name}:", value, indent)


def _entry(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield f"{head}\n"
        yield from _lines(value, indent + 2)
    elif isinstance(value, list) and value:
        yield f"{head}\n"
        yield from _items(value, indent)
    else:
        yield f"{head} {_scalar(value)}\n"


def _items(items: list[Any], indent: int) -> Iterator[str]:
    space = " " * indent
    for item in items:
        if isinstance(item, When):
            yield f"{{{{- if {item.condition} }}}}\n"
            yield from _items([item.node], indent)
            yield "{{- end }}\n"
        elif isinstance(item, SettingsEntries):
            yield "{{- range $name, $value := .Values.settings }}\n"
            yield f'{space}- name: "MOORAGE_{{{{ upper $name }}}}"\n'
            yield f"{space}  value: {{{{ $value | toString | quote }}}}\n"
            yield "{{- end }}\n"
        elif isinstance(item, dict) and item:
            first, *rest = list(_lines(item, indent + 2))
            if first.startswith("{{"):
                raise ValueError(f"the first entry of {item} must not depend on a condition")
            yield f"{space}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{space}- {_scalar(item)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, Action):
        return value.code.replace(" }}", " | quote }}") if value.text else value.code
    text = json.dumps(value, ensure_ascii=False)
    for sentinel, code in SENTINELS.items():
        text = text.replace(sentinel, code)
    return re.sub(r"@value:([A-Za-z.]+)@", r"{{ .Values.\1 }}", text)


def _values_file() -> str:
    tree: dict[str, Any] = {}
    for value in VALUES:
        *folders, name = value.path.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return _HEAD + "".join(_value_lines(tree, 0))


def _value_lines(tree: dict[str, Any], indent: int) -> Iterator[str]:
    space = " " * indent
    for name, node in tree.items():
        if isinstance(node, Value):
            yield f"{space}# {node.about}\n{space}{name}: {json.dumps(node.default, ensure_ascii=False)}\n"
        else:
            yield f"{space}{name}:\n"
            yield from _value_lines(node, indent + 2)


def _schema() -> dict[str, Any]:
    root: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    for value in VALUES:
        *folders, name = value.path.split(".")
        place = root
        for folder in folders:
            empty = {"type": "object", "additionalProperties": False, "properties": {}}
            place = place["properties"].setdefault(folder, empty)
        place["properties"][name] = schema_of(value)
    # Helm adds this one for charts that are parts of others.
    root["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def write_chart(folder: Path) -> None:
    for path, text in chart_files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    write_chart(Path(sys.argv[1]))
