"""WireGuard keys: 32 bytes of Curve25519, written in base64."""

import base64
import binascii
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from moorage.kit.whole_files import write_whole

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
    write_whole(path, f"{private_key}\n", 0o600)


def _written(key: bytes) -> str:
    return base64.b64encode(key).decode()
