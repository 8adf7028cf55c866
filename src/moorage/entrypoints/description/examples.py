"""Makes an example for a schema, out of the values in `example_values.py`. Pure.

An answer's example has every field; a request's has those that are required, and those that show what it is for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.entrypoints.description.example_values import IDS, NULL, VALUES

Schema = Mapping[str, Any]

_SHOWN_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "ApiKeyCreate": ("requests_per_minute",),
    "ApiKeyPatch": ("disabled",),
    "ApiKeyRotate": ("overlap_s",),
    "ApplyRequest": ("strategy",),
    "Ban": ("reason",),
    "BillingDetailsPatch": ("name", "address", "tax_id"),
    "CanaryRequest": (),
    "ContainerCreate": ("env", "port", "health_check"),
    "ContainerPatch": ("env",),
    "Decision": ("answer",),
    "DeviceStart": ("client_name",),
    "HealthCheck": ("path", "timeout_s"),
    "InstanceTypePatch": ("price_per_hour_microusd",),
    "InstanceTypeWrite": ("gpu_model", "gpu_count"),
    "InvitationCreate": ("role", "project_id"),
    "LimitChange": ("limit_microusd",),
    "LentMachineWish": ("name",),
    "MachineWish": ("name",),
    "MemberPatch": ("role",),
    "ModelDeploy": ("name", "resources"),
    "Pause": ("until",),
    "ReplayRequest": ("max_replicas", "target_concurrency"),
    "ReplicaLimitRequestWrite": ("note",),
    "RestartRequest": ("avoid_current_nodes",),
    "ScaleRequest": ("min_replicas", "max_replicas"),
    "SettingsPatch": ("env", "image"),
    "WebhookCreate": ("events",),
    "WebhookPatch": ("events",),
}
"""Beside the required ones, in a request."""

_FALLBACKS = {"string": "text", "integer": 1, "number": 1.0, "object": {}}
_WHEN = {"date-time": "2026-11-02T09:30:00Z", "date": "2026-11-02"}


class Examples:
    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self.without_value: set[str] = set()
        """Fields that the tables should know: they were filled with something that only has the right type."""

    def request(self, schema: Schema) -> Any:
        return self._of(schema, "", "", is_request=True)

    def answer(self, schema: Schema) -> Any:
        return self._of(schema, "", "", is_request=False)

    def _of(self, schema: Schema, owner: str, name: str, *, is_request: bool) -> Any:
        for value in self._given(schema, owner, name):
            return value
        if "$ref" in schema:
            owner = schema["$ref"].rsplit("/", 1)[1]
            return self._of(self._schemas[owner], owner, "", is_request=is_request)
        if "properties" in schema:
            return self._object(schema, owner, is_request=is_request)
        for alternatives in ("anyOf", "oneOf"):
            if alternatives in schema:
                first = next(one for one in schema[alternatives] if one.get("type") != "null")
                return self._of(first, owner, name, is_request=is_request)
        return self._plain(schema, owner, name, is_request=is_request)

    def _given(self, schema: Schema, owner: str, name: str) -> Iterator[Any]:
        """The value that the tables have for this field, if they have one."""
        if name == "id" and owner in IDS:
            yield IDS[owner]
        if f"{owner}.{name}" in VALUES:
            yield VALUES[f"{owner}.{name}"]
        if name in NULL and _may_be_null(schema):
            yield None
        if name in VALUES and not self._is_made_of_others(schema):
            yield VALUES[name]

    def _is_made_of_others(self, schema: Schema) -> bool:
        """What is an object or one of a few words says itself what it can be."""
        if "$ref" in schema:
            return self._is_made_of_others(self._schemas[schema["$ref"].rsplit("/", 1)[1]])
        inner = [
            *schema.get("anyOf", ()),
            *schema.get("oneOf", ()),
            *([schema["items"]] if "items" in schema else ()),
        ]
        told = "properties" in schema or "enum" in schema or "const" in schema
        return told or any(self._is_made_of_others(one) for one in inner)

    def _object(self, schema: Schema, owner: str, *, is_request: bool) -> dict[str, Any]:
        shown = schema["properties"]
        if is_request:
            wanted = (*schema.get("required", ()), *_SHOWN_OPTIONAL.get(owner, ()))
            shown = {name: one for name, one in shown.items() if name in wanted}
        return {name: self._of(one, owner, name, is_request=is_request) for name, one in shown.items()}

    def _plain(self, schema: Schema, owner: str, name: str, *, is_request: bool) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "format" in schema and schema["format"] in _WHEN:
            return _WHEN[schema["format"]]
        if schema.get("type") == "array":
            return [self._of(schema["items"], owner, "", is_request=is_request)]
        if schema.get("type") == "boolean":
            return schema.get("default", False)
        if "default" not in schema:
            self.without_value.add(f"{owner}.{name}")
        return schema.get("default", _FALLBACKS.get(schema.get("type", "")))


def _may_be_null(schema: Schema) -> bool:
    return any(one.get("type") == "null" for one in schema.get("anyOf", ()))
