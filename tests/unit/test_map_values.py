"""What HAProxy's maps say is read back as it was, and cut by the rules where it was put together."""

import dataclasses
import re

from moorage.gateway.layout import Placement
from moorage.gateway.map_values import (
    KEY_EXPIRY,
    KEY_ID,
    KEY_LENGTH_WITHOUT_RATE,
    KEY_ORGANIZATION,
    KEY_OWN_RATE,
    PROJECT,
    ROUTE_LIMITS,
    ROUTE_SLOT,
    key_value,
    keys_from,
    map_key_of,
    route_key,
    route_value,
    routes_from,
)
from moorage.gateway.table import KeyEntry, TrafficLimits
from moorage.kit import ids

PROJECT_ID = ids.new_project_id()


def test_a_key_survives_the_map() -> None:
    key_id, organization_id = "key_" + "a" * 20, "org_" + "b" * 20
    for entry in (
        *(KeyEntry("0" * 64, PROJECT_ID, expires_at_epoch_s) for expires_at_epoch_s in (0, 1, 2**53 - 1)),
        KeyEntry("0" * 64, PROJECT_ID, 0, key_id, organization_id),
        KeyEntry("0" * 64, PROJECT_ID, 0, key_id, organization_id, requests_per_minute=60),
    ):
        assert keys_from({map_key_of(entry.key_hash_hex): key_value(entry)}) == {entry.key_hash_hex: entry}


def test_the_rules_find_the_parts_of_a_map_entry() -> None:
    entry = KeyEntry(
        "0" * 64, PROJECT_ID, 1_700_000_000, "key_" + "a" * 20, "org_" + "b" * 20, requests_per_minute=60
    )
    value = key_value(entry)
    assert cut(value, PROJECT) == PROJECT_ID
    assert cut(value, KEY_EXPIRY) == "1700000000"
    assert cut(value, KEY_ID) == entry.key_id
    assert cut(value, KEY_ORGANIZATION) == entry.organization_id
    assert cut(value, KEY_OWN_RATE) == "60"
    assert len(key_value(dataclasses.replace(entry, requests_per_minute=0))) == KEY_LENGTH_WITHOUT_RATE
    container_id = ids.new_container_id()
    limits = TrafficLimits(max_body_bytes=5, retry_unanswered=True)
    value = route_value(container_id, Placement(PROJECT_ID, 17, limits))
    assert cut(value, PROJECT) == PROJECT_ID
    assert cut(value, ROUTE_SLOT) == "17"
    assert cut(value, ROUTE_LIMITS) == "5:600000:3600000:retry"
    assert routes_from({route_key(container_id): value}) == {container_id: Placement(PROJECT_ID, 17, limits)}


def cut(value: str, converters: str) -> str:
    """As HAProxy does it."""
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\)", converters):
        numbers = [int(number) for number in re.findall(r"\d+", arguments)]
        match name:
            case "bytes":
                value = value[numbers[0] :][: numbers[1] if len(numbers) > 1 else None]
            case "ltrim":
                value = value.lstrip(arguments)
            case "field":
                fields = value.split(":")[numbers[0] - 1 :]
                value = ":".join(fields[: numbers[1] if len(numbers) > 1 else 1])
            case _:
                raise AssertionError(name)
    return value
