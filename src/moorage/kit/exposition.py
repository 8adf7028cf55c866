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


@dataclass(frozen=True)
class Metric:
    """What is known of a family before anything was counted, so that pages and dashboards can name it."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    def family(self, values: Sequence[Value]) -> Family:
        return Family(self.name, self.kind, self.help, values)

    def by_label(self, numbers: Mapping[str, float]) -> Family:
        """Of a metric with one label: a value for each of what it tells apart."""
        (label,) = self.labels
        return self.family([Value(number, {label: key}) for key, number in sorted(numbers.items())])


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
