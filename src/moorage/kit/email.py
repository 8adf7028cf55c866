"""E-mail addresses, compared as the design says: trimmed, the domain in lower case, the rest as it is. Pure."""

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


def mailbox(address: str) -> str:
    """What all spellings of a normalized address share that usually reach one mailbox: for what is given once per person.
    Nothing is sent to it, and nobody is signed in by it: some servers do tell `Ada` from `ada`."""
    local, _, domain = address.lower().rpartition("@")
    local = local.partition("+")[0] or local
    if domain in _GOOGLE:
        local, domain = local.replace(".", "") or local, "gmail.com"
    return f"{local}@{domain}"


_GOOGLE = ("gmail.com", "googlemail.com")
"""Dots in the local part mean nothing there."""
