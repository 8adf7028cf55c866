"""Who asks for a code or enters one, as far as can be told of somebody who is not signed in. Pure.

A browser that signed in before brings a *device cookie*, which says for which address; everybody else is known by the
source of the request. Limits count by origin, so what strangers do counts for strangers.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from moorage.kit.crypto import Keyring, equal, keyed_hash

DEVICE_LIFETIME = timedelta(days=180)
_ID_BYTES = 16


@dataclass(frozen=True)
class Caller:
    """Of one request."""

    source: str
    device_token: str
    """The cookie's value; empty where there is none."""


@dataclass(frozen=True)
class Origin:
    """Of a request about one address."""

    name: str
    source: str
    is_device: bool
    """A browser in which somebody signed in with this address."""


def origin_of(keyring: Keyring, address: str, caller: Caller) -> Origin:
    device_id, _, signature = caller.device_token.partition(".")
    # Every key is tried, so that a new master key makes no stranger of anybody.
    signed = [equal(signature.encode(), _signature(key, device_id, address)) for _, key in keyring.keys]
    if any(signed):
        return Origin(f"device:{device_id}", caller.source, is_device=True)
    return Origin(f"source:{caller.source}", caller.source, is_device=False)


def device_token(keyring: Keyring, address: str, caller: Caller) -> str:
    """For the cookie of a browser that signed in. One that has it keeps its id, and with it what it used up."""
    origin = origin_of(keyring, address, caller)
    device_id = origin.name.removeprefix("device:") if origin.is_device else secrets.token_hex(_ID_BYTES)
    return f"{device_id}.{_signature(keyring.keys[0][1], device_id, address).decode()}"


def _signature(key: bytes, device_id: str, address: str) -> bytes:
    # The address is hashed, so that no id and address together read like another pair.
    digest = hashlib.sha256(address.encode()).hexdigest()
    return keyed_hash(key, f"device-cookie:{device_id}:{digest}").hex().encode()
