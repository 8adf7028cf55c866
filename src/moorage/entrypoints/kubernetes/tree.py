"""Objects that can be written in two ways: with an operator's values in them, or as a chart's template. Pure.

A builder asks `Source` for each value and for each condition. `Given` answers with values, `Templated` with nodes that
`chart.py` turns into Helm's language. So the chart and `moor kubernetes manifests` cannot say different things: they are one
function.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from moorage.engines.kubernetes.names import namespace_prefix
from moorage.entrypoints.kubernetes.values import BY_PATH
from moorage.kit.ids import InstallationId

OMITTED: Any = object()
"""In place of an entry that a condition leaves out."""


@dataclass(frozen=True)
class Action:
    """A value that Helm computes, as it stands in the template; `text`: it is a string, and quoted."""

    code: str
    text: bool = False


@dataclass(frozen=True)
class When:
    """An entry of a list or a mapping that is there if Helm finds the condition true."""

    condition: str
    node: Any


@dataclass(frozen=True)
class SettingsEntries:
    """In a list: an environment variable for each entry of `settings`."""


class Source(Protocol):
    """The properties are strings, or sentinels for them; they may be parts of other strings."""

    @property
    def release(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def installation_id(self) -> str: ...
    @property
    def namespace_prefix(self) -> str: ...
    @property
    def image(self) -> str: ...
    @property
    def tag(self) -> str: ...
    @property
    def pull_address(self) -> str: ...

    def value(self, path: str) -> Any:
        """As it is: a text, a number, a list, a mapping."""
        ...

    def when(self, path: str, node: Any) -> Any:
        """If that value is not empty."""
        ...

    def as_text(self, path: str) -> Any:
        """A number, as text."""
        ...

    def json_text(self, path: str) -> Any:
        """A list, as the text of JSON."""
        ...

    def named_objects(self, path: str) -> Any:
        """A list of names, as a list of objects that have them."""
        ...

    def filled(self, pattern: str, path: str) -> Any:
        """A text with this value in place of `{}`."""
        ...

    def settings(self) -> Any:
        """Environment variables for `settings`, to be spread into a list."""
        ...


def derived_installation_id(namespace: str, release: str) -> str:
    return f"ins_{hashlib.sha256(f'{namespace}/{release}'.encode()).hexdigest()[:20]}"


@dataclass(frozen=True)
class Given:
    """An operator's values."""

    values: Mapping[str, Any]
    release: str
    namespace: str
    version: str

    @property
    def installation_id(self) -> str:
        given = self.values["installationId"]
        return str(given) if given else derived_installation_id(self.namespace, self.release)

    @property
    def namespace_prefix(self) -> str:
        return namespace_prefix(InstallationId(self.installation_id))

    @property
    def image(self) -> str:
        return f"{self.values['image.repository']}:{self.tag}"

    @property
    def tag(self) -> str:
        return str(self.values["image.tag"] or self.version)

    @property
    def pull_address(self) -> str:
        return str(self.values["pulls.address"] or f"127.0.0.1:{self.values['pulls.nodePort']}")

    def value(self, path: str) -> Any:
        return self.values[path]

    def when(self, path: str, node: Any) -> Any:
        return node if self.values[path] else OMITTED

    def as_text(self, path: str) -> Any:
        return str(self.values[path])

    def json_text(self, path: str) -> Any:
        return json.dumps(self.values[path], separators=(",", ":"))

    def named_objects(self, path: str) -> Any:
        return [{"name": name} for name in self.values[path]]

    def filled(self, pattern: str, path: str) -> Any:
        return pattern.replace("{}", str(self.values[path]))

    def settings(self) -> Any:
        return [
            {"name": f"MOORAGE_{name.upper()}", "value": env_text(value)}
            for name, value in sorted(self.values["settings"].items())
        ]


def env_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


SENTINELS = {
    "@release@": "{{ .Release.Name }}",
    "@namespace@": "{{ .Release.Namespace }}",
    "@version@": "{{ .Chart.AppVersion }}",
    "@installation@": '{{ include "moorage.installationId" . }}',
    "@prefix@": '{{ include "moorage.namespacePrefix" . }}',
    "@image@": "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}",
    "@tag@": "{{ .Values.image.tag | default .Chart.AppVersion }}",
    "@pulls@": '{{ include "moorage.pullAddress" . }}',
}
"""Parts of strings, and what Helm puts there."""


@dataclass(frozen=True)
class Templated:
    """A chart's template."""

    release: str = "@release@"
    namespace: str = "@namespace@"
    version: str = "@version@"
    installation_id: str = "@installation@"
    namespace_prefix: str = "@prefix@"
    image: str = "@image@"
    tag: str = "@tag@"
    pull_address: str = "@pulls@"

    def value(self, path: str) -> Any:
        known = BY_PATH[path]
        if known.kind in ("texts", "map"):
            return Action(f"{{{{ toJson .Values.{path} }}}}")
        return Action(f"{{{{ .Values.{path} }}}}", text=known.kind == "text")

    def when(self, path: str, node: Any) -> Any:
        return When(f".Values.{path}", node)

    def as_text(self, path: str) -> Any:
        return Action(f"{{{{ .Values.{path} | toString }}}}", text=True)

    def json_text(self, path: str) -> Any:
        return Action(f"{{{{ toJson .Values.{path} }}}}", text=True)

    def named_objects(self, path: str) -> Any:
        names = f'{{{{- range $index, $name := .Values.{path} }}}}{{{{ if $index }}}}, {{{{ end }}}}{{"name": {{{{ $name | quote }}}}}}{{{{ end }}}}'
        return Action(f"[{names}]")

    def filled(self, pattern: str, path: str) -> Any:
        return pattern.replace("{}", f"@value:{path}@")

    def settings(self) -> Any:
        return [SettingsEntries()]


def resolved(node: Any) -> Any:
    """Without what conditions left out."""
    if isinstance(node, dict):
        return {key: resolved(one) for key, one in node.items() if one is not OMITTED}
    if isinstance(node, list):
        return [resolved(one) for one in node if one is not OMITTED]
    return node
