"""E-mail addresses, compared as the design says: trimmed, the domain in lower case, the rest as it is."""

import re

_ADDRESS = re.compile(
    r"[^\s@<>\"(),:;\\\[\]\x00-\x1f\x7f]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,187}[A-Za-z0-9])?"
)


def normalized(address: str) -> str:
    """Raises `ValueError` for what is not an address."""
    trimmed = address.strip()
    if not _ADDRESS.fullmatch(trimmed) or not trimmed.isascii():
        raise ValueError("must be an e-mail address such as name@example.com")
    local, _, domain = trimmed.rpartition("@")
    return f"{local}@{domain.lower()}"
