"""Secrets at rest: AES-256-GCM with a data key per value, wrapped by a master key kept outside Postgres.

A ciphertext is bound to where it belongs (its *context*, e.g. `containers.secrets:ctr_…`): copied
to another row or column it does not decrypt. Layout, all lengths fixed but the last:

    version 1 | key id 4 | wrap nonce 12 | wrapped data key 48 | nonce 12 | ciphertext + tag

The master keys are lines of `<key id hex> <key hex>` in a file of mode 0600; the first one encrypts,
all of them decrypt. A new key is a line on top; the old one stays below, because nothing seals existing rows again.
"""

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from moorage.kit.errors import DecryptionError, SettingsError
from moorage.kit.whole_files import create_whole

_VERSION = 1
_KEY_ID_BYTES = 4
_KEY_BYTES = 32
_NONCE_BYTES = 12
_WRAPPED_BYTES = _KEY_BYTES + 16


@dataclass(frozen=True)
class Keyring:
    """Master keys, newest first."""

    keys: tuple[tuple[bytes, bytes], ...]

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Tell keys apart and nothing about them, in the same order."""
        return tuple(hashlib.sha256(b"moorage:" + key_id + key).hexdigest()[:16] for key_id, key in self.keys)

    def encrypt(self, plaintext: bytes, context: str) -> bytes:
        key_id, master_key = self.keys[0]
        bound_to = context.encode()
        data_key = secrets.token_bytes(_KEY_BYTES)
        wrap_nonce = secrets.token_bytes(_NONCE_BYTES)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        wrapped = AESGCM(master_key).encrypt(wrap_nonce, data_key, bound_to)
        ciphertext = AESGCM(data_key).encrypt(nonce, plaintext, bound_to)
        return bytes([_VERSION]) + key_id + wrap_nonce + wrapped + nonce + ciphertext

    def decrypt(self, blob: bytes, context: str) -> bytes:
        if len(blob) < 1 + _KEY_ID_BYTES + 2 * _NONCE_BYTES + _WRAPPED_BYTES + 16 or blob[0] != _VERSION:
            raise DecryptionError(f"{context}: not a value that Moorage encrypted")
        reader = _Reader(blob, at=1)
        key_id = reader.take(_KEY_ID_BYTES)
        wrap_nonce, wrapped = reader.take(_NONCE_BYTES), reader.take(_WRAPPED_BYTES)
        nonce, ciphertext = reader.take(_NONCE_BYTES), reader.rest()
        master_key = next((key for known_id, key in self.keys if known_id == key_id), None)
        if master_key is None:
            raise DecryptionError(f"{context}: its master key {key_id.hex()} is not in the key file")
        try:
            data_key = AESGCM(master_key).decrypt(wrap_nonce, wrapped, context.encode())
            return AESGCM(data_key).decrypt(nonce, ciphertext, context.encode())
        except InvalidTag as exc:
            raise DecryptionError(f"{context}: damaged, or copied from another row") from exc


def load_or_create_keyring(path: Path) -> Keyring:
    """Read the key file; make one with a fresh key where there is none."""
    if not path.exists():
        with suppress(FileExistsError):
            create_whole(path, f"{secrets.token_hex(_KEY_ID_BYTES)} {secrets.token_hex(_KEY_BYTES)}\n", 0o600)
    return read_keyring(path)


def read_keyring(path: Path) -> Keyring:
    return parse_keyring(path.read_text(), str(path))


def parse_keyring(text: str, where: str) -> Keyring:
    try:
        lines = [line.split() for line in text.splitlines() if line.strip()]
        keys = tuple((bytes.fromhex(key_id), bytes.fromhex(key)) for key_id, key in lines)
    except ValueError as exc:
        raise SettingsError(f"{where}: each line must be '<key id hex> <key hex>'") from exc
    if not keys or any(len(key_id) != _KEY_ID_BYTES or len(key) != _KEY_BYTES for key_id, key in keys):
        raise SettingsError(f"{where}: needs at least one line with a 4-byte id and a 32-byte key, in hex")
    return Keyring(keys)


def sha256(text: str) -> bytes:
    """For tokens of 128 random bits or more, which need no salt and no slow hash."""
    return hashlib.sha256(text.encode()).digest()


def keyed_hash(key: bytes, text: str) -> bytes:
    """For what is short enough to guess, such as a six-digit code."""
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def equal(left: bytes, right: bytes) -> bool:
    return hmac.compare_digest(left, right)


@dataclass
class _Reader:
    data: bytes
    at: int

    def take(self, length: int) -> bytes:
        piece = self.data[self.at : self.at + length]
        self.at += length
        return piece

    def rest(self) -> bytes:
        return self.data[self.at :]
