"""Money is an integer number of micro-dollars (1 USD = 1,000,000). Never a float."""

from decimal import Decimal, InvalidOperation

MICROUSD_PER_USD = 1_000_000


def microusd_from_usd(text: str) -> int:
    """`"1.10"` → 1100000. Refuses what cannot be represented exactly."""
    try:
        amount = Decimal(text) * MICROUSD_PER_USD
    except InvalidOperation as exc:
        raise ValueError(f"{text!r} is not an amount in US dollars") from exc
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of micro-dollars")
    return int(amount)


def format_usd(amount_microusd: int) -> str:
    """1100000 → `"$1.10"`, 12500 → `"$0.0125"`: cents at least, more digits only where they matter."""
    sign = "-" if amount_microusd < 0 else ""
    whole, fraction = divmod(abs(amount_microusd), MICROUSD_PER_USD)
    digits = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{digits}"
