"""A container's secrets as they lie in its row: one sealed JSON, bound to that row."""

import json
from typing import Any

from moorage.containers.spec import ContainerSecrets
from moorage.kit.crypto import Keyring


def seal(keyring: Keyring, container_id: str, secrets: ContainerSecrets) -> bytes:
    plain = {"registry_password": secrets.registry_password, "environment": secrets.environment}
    return keyring.encrypt(json.dumps(plain).encode(), _context(container_id))


def unseal(keyring: Keyring, container_id: str, sealed: bytes) -> ContainerSecrets:
    plain = json.loads(keyring.decrypt(sealed, _context(container_id)))
    return ContainerSecrets(plain["registry_password"], plain["environment"])


def seal_draft(keyring: Keyring, container_id: str, sent: dict[str, Any]) -> bytes:
    return keyring.encrypt(json.dumps(sent).encode(), _draft_context(container_id))


def unseal_draft(keyring: Keyring, container_id: str, sealed: bytes) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(keyring.decrypt(sealed, _draft_context(container_id)))
    return sent


def _draft_context(container_id: str) -> str:
    return f"containers.draft:{container_id}"


def _context(container_id: str) -> str:
    return f"containers.secrets:{container_id}"
