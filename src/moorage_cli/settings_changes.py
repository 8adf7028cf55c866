"""From `--set field=value` to the body of an edit.

Fields are the API's, with a dot for what lies within: `port`, `health_check.path`, `env.TOKEN`. The API checks the
values; here only their types are made right.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moorage_cli.errors import UsageError

if TYPE_CHECKING:
    from moorage_cli.api.types import Container

CACHE_SIZE = "cache.size_gib"
_NUMBERS = frozenset(
    {
        "port",
        "health_check.timeout_s",
        "resources.min_replicas",
        "resources.max_replicas",
        "resources.target_concurrency",
        "resources.scale_down_delay_s",
        "sleep_after_s",
        CACHE_SIZE,
    }
)
_TEXTS = frozenset(
    {
        "api_path",
        "category",
        "image",
        "infrastructure",
        "start_command",
        "registry.provider",
        "registry.username",
        "health_check.path",
        "resources.mode",
        "resources.instance_type",
    }
)
_SWITCHES = frozenset({"accept_exposure"})
_SCALING = frozenset({"resources.min_replicas", "resources.max_replicas"})


def changes_of(
    options: Sequence[str], container: "Container", environment: Mapping[str, str]
) -> dict[str, Any]:
    """The body; `resources` is whole, because the API takes it as a whole."""
    body: dict[str, Any] = {}
    for option in options:
        field, value = _parsed(option, environment)
        head, dot, rest = field.partition(".")
        if not dot:
            body[head] = value
            continue
        if field == CACHE_SIZE and value is None:
            body[head] = None
            continue
        if head == "resources" and head not in body:
            body[head] = dict(container["resources"])
        body.setdefault(head, {})[rest] = value
        if field in _SCALING:
            body[head]["mode"] = "autoscaling"
            body[head].setdefault("min_replicas", 1)
            body[head].setdefault("max_replicas", max(1, int(value or 1)))
    return body


def _parsed(option: str, environment: Mapping[str, str]) -> tuple[str, Any]:
    field, equals, text = option.partition("=")
    kind, _, name = field.partition(".")
    if kind in ("env", "plain_env") and name:
        return field, _variable(field, name, equals, text, environment)
    if field not in _NUMBERS | _TEXTS | _SWITCHES:
        known = ", ".join(sorted({*_NUMBERS, *_TEXTS, *_SWITCHES, "env.NAME", "plain_env.NAME"}))
        raise UsageError(f"There is no setting {field!r}. The settings are {known}.")
    if not equals:
        raise UsageError(f"Write --set {field}=VALUE, or --set {field}= to clear it.")
    if field in _SWITCHES:
        if text not in ("true", "false"):
            raise UsageError(f"{field} must be true or false, not {text!r}.")
        return field, text == "true"
    if not text:
        return field, None
    if field not in _NUMBERS:
        return field, text
    try:
        return field, int(text)
    except ValueError as exc:
        raise UsageError(f"{field} must be a whole number, not {text!r}.") from exc


def _variable(field: str, name: str, equals: str, text: str, environment: Mapping[str, str]) -> str | None:
    """`env.NAME=value`; `env.NAME=` deletes it; `env.NAME` takes the value that this shell has. So with `plain_env.`."""
    if equals:
        return text or None
    if name not in environment:
        raise UsageError(f"--set {field}: the environment variable {name} is not set here.")
    return environment[name]
