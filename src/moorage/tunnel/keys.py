"""WireGuard keys: 32 bytes of Curve25519, written in base64."""

import base64
import binascii
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_KEY_BYTES = 32


def new_private_key() -> str:
    return _written(X25519PrivateKey.generate().private_bytes_raw())


def public_key_of(private_key: str) -> str:
    key = X25519PrivateKey.from_private_bytes(base64.b64decode(private_key, validate=True))
    return _written(key.public_key().public_bytes_raw())


def is_public_key(text: str) -> bool:
    """Written the one way that there is: base64 has spare bits, and a key under two names would be two peers."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(key) == _KEY_BYTES and any(key) and _written(key) == text


def load_or_create_private_key(path: Path) -> str:
    """Of a file that its owner alone can read."""
    if not path.exists():
        replace_private_key(path, new_private_key())
    return path.read_text().strip()


def replace_private_key(path: Path, private_key: str) -> None:
    """A crash leaves the old one or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{private_key}\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _written(key: bytes) -> str:
    return base64.b64encode(key).decode()
