"""Kubernetes' way of writing amounts: `500m`, `1Gi`, `2e3`. Pure."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+)(m|u|n|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?")
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def amount_of(quantity: str | int) -> Decimal:
    """Raises `ValueError` for what is none."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(f"{quantity!r} is no quantity")
    number, suffix = Decimal(match.group(1)), match.group(2) or ""
    if suffix not in _FACTORS:  # an exponent
        return number * Decimal(f"1{suffix}")
    return number * _FACTORS[suffix]


def millis_of(quantity: str | int) -> int:
    return int(amount_of(quantity) * 1000)


def bytes_of(quantity: str | int) -> int:
    return int(amount_of(quantity))
