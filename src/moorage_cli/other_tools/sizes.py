"""How much another tool was told that a container may take, and the instance type that has it. Pure."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from moorage_cli.amounts import shown_bytes
from moorage_cli.errors import CliError, ExitCode, UsageError

if TYPE_CHECKING:
    from moorage_cli.api.types import InstanceTypeRead

_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class Sizes:
    """At least so much; 0 where nothing is said."""

    gpus: int = 0
    vcpu_millis: int = 0
    memory_bytes: int = 0

    @property
    def is_something(self) -> bool:
        return self != Sizes()

    def missing_in(self, type_: "InstanceTypeRead") -> list[str]:
        """What the type has less of, in words."""
        found = []
        if type_["gpu_count"] < self.gpus:
            found.append(f"{type_['gpu_count']} of {self.gpus} GPUs")
        if type_["vcpu_millis"] < self.vcpu_millis:
            found.append(f"{type_['vcpu_millis'] / 1000:g} of {self.vcpu_millis / 1000:g} CPUs")
        if type_["memory_bytes"] < self.memory_bytes:
            found.append(
                f"{shown_bytes(type_['memory_bytes'])} of {shown_bytes(self.memory_bytes)} of memory"
            )
        return found

    def __str__(self) -> str:
        parts = [
            f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}" if self.gpus else "",
            f"{self.vcpu_millis / 1000:g} CPUs" if self.vcpu_millis else "",
            f"{shown_bytes(self.memory_bytes)} of memory" if self.memory_bytes else "",
        ]
        return ", ".join(part for part in parts if part)


def cheapest_with(
    sizes: Sizes, types: "Sequence[InstanceTypeRead]", infrastructure: str
) -> "InstanceTypeRead":
    """One that can be had now goes before one that cannot."""
    wanted = [
        one
        for one in types
        if not sizes.missing_in(one) and infrastructure in (one["infrastructure"], "any") and one["enabled"]
    ]
    if not wanted:
        raise CliError(
            f"No instance type here has {sizes}.",
            ExitCode.USAGE,
            code="no_such_size",
            hint="`moor instance-types` shows all of them. Choose one with --instance-type.",
        )
    return min(wanted, key=lambda one: (not one["available"], one["price_per_hour_microusd"]))


def bytes_of(text: str, where: str) -> int:
    """As Docker writes it: `512m`, `4g`, `1.5GB`, or a number of bytes."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{where}: {text!r} is not a size such as 512m or 4g.")
    return int(Decimal(match[1]) * 1024 ** _POWERS[match[2].lower()])


def vcpu_millis_of(text: str, where: str) -> int:
    try:
        amount = Decimal(text)
        good = amount.is_finite() and 0 <= amount <= 100_000
    except InvalidOperation:
        good = False
    if not good:
        raise UsageError(f"{where}: {text!r} is not a number of CPUs such as 0.5 or 4.")
    return int(amount * 1000)


def gpus_of(text: str) -> tuple[int, str]:
    """From `--gpus`: how many, and what is to be said of it. `all`, `2`, `count=2`, `"device=0,1"`."""
    count, said = 1, ""
    fields = next(csv.reader([text.strip().strip("'")]), [])
    for field in fields:
        name, equals, value = field.strip().partition("=")
        if not equals:
            name, value = "count", name
        match name:
            case "count" if value == "all":
                said = ALL_GPUS
            case "count" if re.fullmatch(r"[0-9]{1,3}", value):
                count = int(value)
            case "device":
                count, said = len(value.split(",")), NAMED_GPUS
            case "driver" | "capabilities" | "options":
                pass
            case _:
                raise UsageError(f"--gpus {text}: write all, or how many.")
    return count, said


ALL_GPUS = "It gets all GPUs of its instance type, the cheapest one with a GPU unless you name another."
NAMED_GPUS = "It gets that many GPUs. Moorage chooses which."
