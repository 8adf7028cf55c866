"""The installation's settings, from `kit/settings.py`."""

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from moorage.entrypoints.handbook.words import code, sentences_of
from moorage.kit.settings import Settings

GROUPS = {
    "home": "Data folder and identity",
    "api_listen": "Addresses and certificates",
    "database_dsn": "Database, keys and shares of the API",
    "docker_host": "Engines, machines and updates",
    "doctor_name": "The doctor",
    "allowed_registries": "What users may name",
    "key_requests_per_s": "Requests and connections",
    "billing_hour_s": "Money",
    "operator_email": "People and mail",
    "limit_by_source": "Limits of strangers",
    "google_client_id": "Sign-in providers",
    "organizations_per_person": "How much one may have",
    "log_retention_days": "What is kept, and for how long",
    "backup_recipient": "Backups",
    "otlp_endpoint": "Logs and traces of Moorage itself",
}
"""The first setting of each group; each is followed by those up to the next."""

_INTRODUCTION = """# Settings

Settings come from `MOORAGE_*` variables, then from `moorage.toml`, then from the defaults below. `MOORAGE_CONFIG` names the
file; without it, `./moorage.toml` and `moorage.toml` in the data folder are tried. `moor config` prints the effective settings,
with secrets masked.

In the file, a setting is `name = value`, in TOML. As a variable, its name is upper case behind `MOORAGE_`, and a list is written
as JSON: `MOORAGE_ALLOWED_REGISTRIES='["registry.internal:5000"]'`. Settings are read at the start of a process.
"""


def page() -> str:
    sentences = sentences_of(Settings)
    parts = [_INTRODUCTION]
    for name, field in Settings.model_fields.items():
        if name in GROUPS:
            parts.append(f"## {GROUPS[name]}\n")
        parts.append(f"### {name}\n\n{sentences[name]}\n\n{_facts(name, field)}\n")
    return "\n".join(parts)


def _facts(name: str, field: FieldInfo) -> str:
    facts = [f"Default: {_default(name, field)}.", *bounds_of(field), f"Variable: `MOORAGE_{name.upper()}`."]
    return " ".join(facts)


def _default(name: str, field: FieldInfo) -> str:
    if name == "home":
        return "`/var/lib/moorage` as root, else `~/.local/share/moorage`"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return code(list(value)) if value else "an empty list"
    if value == "":
        return "empty"
    return code(str(value).lower() if isinstance(value, bool) else value)


def bounds_of(field: FieldInfo) -> list[str]:
    choices = _choices(field.annotation)
    if choices:
        return [f"One of {', '.join(code(one) for one in choices)}."]
    least = next((one.ge for one in field.metadata if isinstance(one, Ge)), None)
    most = next((one.le for one in field.metadata if isinstance(one, Le)), None)
    bounds = {
        (True, True): f"{least} to {most}",
        (True, False): f"{least} or more",
        (False, True): f"at most {most}",
    }
    told = bounds.get((least is not None, most is not None))
    secret = ["Secret."] if SecretStr in get_args(field.annotation) else []
    return [*([f"Allowed: {told}."] if told else []), *secret]


def _choices(annotation: Any) -> Sequence[str]:
    if get_origin(annotation) is Literal:
        return [str(one) for one in get_args(annotation)]
    if get_origin(annotation) in (Union, types.UnionType):
        return next((found for one in get_args(annotation) if (found := _choices(one))), ())
    return ()
