"""The certificates that are served, as their files say."""

from pathlib import Path

from moorage.entrypoints.health_parts import Certificate
from moorage.gateway.acme.certificate import Held, read
from moorage.gateway.acme.keeper import last_try
from moorage.kit.settings import Settings


def served_certificates(settings: Settings) -> list[Certificate]:
    """By the setting that names them, or that has them given."""
    named = {
        "api_certificate": settings.api_certificate,
        "gateway_certificate": settings.gateway_certificate,
    }
    found = [_certificate(name, path) for name, path in named.items() if path is not None]
    if settings.certified_names:
        tried = last_try(settings.acme_dir)
        trouble = tried.trouble if tried is not None else None
        found.append(_certificate("acme_email", settings.acme_certificate, trouble))
    return found


def _certificate(name: str, path: Path, trouble: str | None = None) -> Certificate:
    held = _read(path)
    return Certificate(
        name,
        str(path),
        held.ends_at if held is not None else None,
        trouble=trouble,
        is_first=name == "acme_email" and held is not None and held.is_first,
    )


def _read(path: Path) -> Held | None:
    """The first in the file, which is what is served."""
    try:
        return read(path.read_bytes())
    except OSError:
        return None
