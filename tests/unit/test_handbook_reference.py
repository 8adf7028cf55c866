"""The handbook's reference leaves nothing out: whatever the code has, its page has."""

import ast
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moorage.containers.reason_words import WORDS
from moorage.containers.states import ContainerState, Reason, ReplicaState
from moorage.entrypoints.handbook.commands_page import commands
from moorage.entrypoints.handbook.pages import PAGES
from moorage.entrypoints.handbook.settings_page import GROUPS
from moorage.entrypoints.handbook.states_page import title_of
from moorage.entrypoints.handbook.words import sentences_of
from moorage.entrypoints.metric_list import METRICS
from moorage.gateway.answers import endpoint_answers
from moorage.kit.settings import Settings
from moorage.machines.states import Happening
from moorage.organizations.permissions import Permission
from moorage.telemetry.metrics.names import CONTAINER_SERIES
from moorage.telemetry.metrics.series import of_requests, of_samples
from moorage.telemetry.steps import Steps
from moorage.webhooks.events import EVENTS

SOURCES = Path(__file__).parents[2] / "src"
NOUNS = "container|cache|replica_limit|organization|project|member|invitation|api_key|billing|machine|webhook"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: page() for name, page in PAGES.items()}


def test_every_setting(pages: dict[str, str]) -> None:
    for name in Settings.model_fields:
        assert f"\n### {name}\n" in pages["settings"]
        assert f"`MOORAGE_{name.upper()}`" in pages["settings"]
    assert set(GROUPS) <= set(Settings.model_fields), "a group begins with a setting that is there"


def test_every_command(pages: dict[str, str]) -> None:
    found = [path for path, _ in commands()]
    assert {"moor up", "moor deploy", "moor billing invoice", "moor operator instance-type add"} <= set(found)
    assert re.findall(r"^## (moor .+)$", pages["commands"], re.MULTILINE) == found


def test_every_state_and_reason(pages: dict[str, str]) -> None:
    for state in (*ContainerState, *ReplicaState):
        assert f"| `{state.value}` |" in pages["states"]
    for reason in Reason:
        assert f"## {title_of(reason)}\n\n`{reason}`\n" in pages["reasons"]
        assert WORDS[reason].meaning
        assert WORDS[reason].fix
    assert set(WORDS) == set(Reason)


def test_every_permission(pages: dict[str, str]) -> None:
    for permission in Permission:
        assert f"| `{permission}` |" in pages["permissions"]


def test_every_metric_and_series(pages: dict[str, str]) -> None:
    for metric in METRICS:
        assert f"| `{metric.name}` |" in pages["metrics"]
    declared = re.findall(
        r"^([A-Z_]+) = Metric\(", (SOURCES / "moorage/entrypoints/metric_list.py").read_text(), re.MULTILINE
    )
    assert len(declared) == len(METRICS), "a metric that is declared is listed"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    steps = Steps(start, step_s=10, count=6)
    made = {"replica_count", *of_samples(steps, [], start), *of_requests(steps, {}, start)}
    assert set(CONTAINER_SERIES) == made


def test_every_event(pages: dict[str, str]) -> None:
    """Activities and audit records become events under the words that they are recorded with."""
    spoken = recorded_words()
    # Of these the last word is the state of a row (`replica_limits/models.py`), or what happened to a machine.
    composed = {"replica_limit.approved", "replica_limit.refused", *(f"machine.{one}" for one in Happening)}
    of_triggers = {"billing.booked"}
    assert set(EVENTS) == spoken | composed | of_triggers
    for event in EVENTS:
        assert f"| `{event}` |" in pages["events"]


def recorded_words() -> set[str]:
    permissions = {f"{one}" for one in Permission}
    only_permissions = permissions - {"project.create", "project.remove", "organization.remove"}
    no_events = only_permissions | {"cache.size_gib"}
    found: set[str] = set()
    for path in SOURCES.glob("moorage/**/*.py"):
        if path.name == "events.py" or "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and re.fullmatch(rf"({NOUNS})\.[a-z_]+", str(node.value)):
                found.add(str(node.value))
    return found - no_events


def test_every_endpoint_error(pages: dict[str, str]) -> None:
    """And with the status that the gateway's rules give it."""
    rules = "".join(path.read_text() for path in (SOURCES / "moorage/gateway").glob("*_rules.py"))
    for answer in endpoint_answers():
        assert f"| `{answer.code}` | {answer.status} |" in pages["errors"]
        statuses = set(re.findall(rf"status (\d+) {{endpoint_error\([\"']{answer.code}[\"']\)}}", rules))
        assert not statuses or statuses == {str(answer.status)}


def test_no_name_goes_without_a_sentence() -> None:
    class Silent:
        told: int
        """What it is."""
        untold: int

    with pytest.raises(AssertionError, match="untold"):
        sentences_of(Silent)
