"""Prometheus' text format, which is a line for each value. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    number: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    """`_bucket`, `_sum` or `_count` of a histogram."""


@dataclass(frozen=True)
class Family:
    name: str
    kind: str
    """`gauge`, `counter` or `histogram`."""
    help: str
    values: Sequence[Value]


def exposition(families: Sequence[Family]) -> str:
    return "".join(_family(family) for family in families)


def _family(family: Family) -> str:
    lines = [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
    for value in family.values:
        labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in value.labels.items())
        lines.append(f"{family.name}{value.suffix}{{{labels}}} {value.number:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
