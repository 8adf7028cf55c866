"""Which amounts can be paid. Pure."""

from moorage.kit.money import MICROUSD_PER_USD, format_usd

CENT_MICROUSD = 10_000
LEAST_MICROUSD = 5 * MICROUSD_PER_USD
MOST_MICROUSD = 10_000 * MICROUSD_PER_USD


def amount_problem(amount_microusd: int, *, least: int = LEAST_MICROUSD) -> str | None:
    """What is wrong with it, to be read after its name."""
    if not least <= amount_microusd <= MOST_MICROUSD:
        return f"must be from {format_usd(least)} to {format_usd(MOST_MICROUSD)}, in micro-dollars"
    if amount_microusd % CENT_MICROUSD:
        return "must be a whole number of cents (a cent is 10,000 micro-dollars)"
    return None
