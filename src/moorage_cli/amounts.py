"""Money and sizes as people read and write them. Pure."""

from decimal import Decimal, InvalidOperation

from moorage_cli.errors import UsageError


def shown_price(microusd: int) -> str:
    """At least two decimals, never rounded: 10_000 → `0.01`, 5_000 → `0.005`."""
    whole, fraction = divmod(abs(microusd), 1_000_000)
    decimals = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if microusd < 0 else ''}{whole}.{decimals}"


def shown_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB" if count < 1000 else f"{count:.0f} GiB"


def microusd_of(text: str) -> int:
    try:
        amount = Decimal(text) * 1_000_000
        whole = amount.is_finite() and amount == amount.to_integral_value()
    except InvalidOperation:
        whole = False
    if not whole:
        raise UsageError(f"{text!r} is not an amount in US dollars.", hint="Write it like 50 or 12.50.")
    return int(amount)
