"""How much of everything there may be, from schemas, settings and the security profile."""

from typing import Any

from pydantic import TypeAdapter

from moorage.billing.top_ups.amounts import LEAST_MICROUSD, MOST_MICROUSD
from moorage.containers.rollout import LEAST_SHARE, MOST_SHARE
from moorage.containers.schemas import ContainerCreate
from moorage.containers.spec import DEFAULT_PORT, MAX_REPLICAS, MOST_REPLICAS
from moorage.engines.profile import OPEN_FILES_LIMIT, PIDS_LIMIT
from moorage.entrypoints.handbook.words import code, sentences_of, table
from moorage.kit.money import format_usd
from moorage.kit.names import NAME_RULE
from moorage.kit.settings import Settings

_OF_SETTINGS = (
    "organizations_per_person",
    "projects_per_organization",
    "containers_per_project",
    "api_keys_per_project",
    "webhooks_per_organization",
    "invitations_per_day",
    "changes_per_day",
    "streams_per_person",
    "downloads_per_person",
    "key_requests_per_s",
    "organization_requests_per_s",
    "gateway_connections_per_source",
    "api_requests_per_s_per_source",
    "api_requests_at_once_per_source",
    "hold_requests_per_container",
    "hold_timeout_s",
    "max_image_bytes",
    "pull_timeout_s",
    "pulls_per_organization",
    "failed_starts_per_hour",
    "starts_per_minute",
    "largest_cache_gib",
    "log_bytes_per_container",
    "log_retention_days",
)


def page() -> str:
    return f"""# Limits

## Settings of a container

What the API accepts. A name {NAME_RULE}. A container without a port gets the single port that its image exposes, else {DEFAULT_PORT}.

{table(("setting", "default", "allowed"), container_settings())}
A project may have {MAX_REPLICAS} replicas of a container. A deployment that asks for more, up to {MOST_REPLICAS:,}, waits for the
operator's approval. A canary gets {LEAST_SHARE} to {MOST_SHARE} percent of the requests.

## Inside a container

| what | limit |
|---|---|
| processes and threads | {PIDS_LIMIT:,} |
| open files of a process | {OPEN_FILES_LIMIT:,} |
| memory, processors, disk, GPUs | what the instance type says; `moor instance-types` lists them. No swap |

## What one may have and do

The operator can change each of these. [Settings](settings.md) has the sentence in full.

{table(("limit", "default", "what it limits"), of_the_installation())}
## Money

One payment is {format_usd(LEAST_MICROUSD)} to {format_usd(MOST_MICROUSD)}.
"""


def container_settings() -> list[tuple[str, str, str]]:
    schema = TypeAdapter(ContainerCreate).json_schema()
    return _fields(schema, schema, "")


def of_the_installation() -> list[tuple[str, str, str]]:
    sentences, rows = sentences_of(Settings), []
    for name in _OF_SETTINGS:
        default = Settings.model_fields[name].default
        rows.append((f"[`{name}`](settings.md#{name.replace('_', '-')})", f"{default:,}", sentences[name]))
    return rows


def _fields(whole: dict[str, Any], part: dict[str, Any], prefix: str) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for name, described in part["properties"].items():
        options = [
            _resolved(whole, one) for one in described.get("anyOf", described.get("oneOf", [described]))
        ]
        nested = [one for one in options if "properties" in one]
        if nested:
            below = [row for one in nested for row in _fields(whole, one, f"{prefix}{name}.")]
            rows += [
                _merged([row for row in below if row[0] == field])
                for field in dict.fromkeys(row[0] for row in below)
            ]
            continue
        required = name in part.get("required", ())
        rows.append(
            (
                code(prefix + name),
                _default(described, required),
                "; ".join(filter(None, map(_allowed, options))),
            )
        )
    return rows


def _merged(rows: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    """Of a setting that several shapes have, what any of them allows."""
    setting, default, _ = rows[0]
    return setting, default, ", ".join(dict.fromkeys(row[2] for row in rows))


def _resolved(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    found: dict[str, Any] = whole["$defs"][reference.rpartition("/")[2]] if reference else part
    return found


def _default(field: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    value = field.get("default")
    return "none" if value in (None, {}) else code(str(value).lower() if isinstance(value, bool) else value)


def _allowed(option: dict[str, Any]) -> str:
    if "enum" in option:
        return ", ".join(code(one) for one in option["enum"])
    if "const" in option:
        return code(option["const"])
    if option.get("type") == "integer":
        return (
            f"{option.get('minimum', ''):,} to {option['maximum']:,}"
            if "maximum" in option
            else "a whole number"
        )
    if "maxLength" in option:
        return f"text of up to {option['maxLength']:,} characters"
    return {"boolean": "`true` or `false`", "object": "names and values"}.get(option.get("type", ""), "")
