"""A container's secrets as they lie in its row: one sealed JSON, bound to that row."""

import json

from moorage.containers.spec import ContainerSecrets
from moorage.kit.crypto import Keyring


def seal(keyring: Keyring, container_id: str, secrets: ContainerSecrets) -> bytes:
    plain = {"registry_password": secrets.registry_password, "environment": secrets.environment}
    return keyring.encrypt(json.dumps(plain).encode(), _context(container_id))


def unseal(keyring: Keyring, container_id: str, sealed: bytes) -> ContainerSecrets:
    plain = json.loads(keyring.decrypt(sealed, _context(container_id)))
    return ContainerSecrets(plain["registry_password"], plain["environment"])


def _context(container_id: str) -> str:
    return f"containers.secrets:{container_id}"
