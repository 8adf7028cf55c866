"""The certificates that are served, as their files say."""

from datetime import datetime
from pathlib import Path

from moorage.entrypoints.health_parts import Certificate
from moorage.gateway.acme.certificate import Held, read, trouble_now, wanted
from moorage.gateway.acme.keeper import asked_for, last_try
from moorage.kit.settings import Settings


def served_certificates(settings: Settings, now: datetime) -> list[Certificate]:
    """By the setting that names them, or that has them given."""
    named = {
        "api_certificate": settings.api_certificate,
        "gateway_certificate": settings.gateway_certificate,
    }
    found = [_certificate(name, path) for name, path in named.items() if path is not None]
    if settings.certified_names:
        asked = asked_for(settings)
        # Of one that is there and good, it says nothing any more what became of some try.
        is_wanted = wanted(_read(settings.acme_certificate), asked, now)
        trouble = trouble_now(last_try(settings.acme_dir), asked, now) if is_wanted else None
        found.append(_certificate("acme_email", settings.acme_certificate, trouble))
    return found


def _certificate(name: str, path: Path, trouble: str | None = None) -> Certificate:
    held = _read(path)
    return Certificate(
        name,
        str(path),
        held.ends_at if held is not None else None,
        not_before=held.begins_at if held is not None else None,
        trouble=trouble,
        is_first=name == "acme_email" and held is not None and held.is_first,
    )


def _read(path: Path) -> Held | None:
    """The first in the file, which is what is served."""
    try:
        return read(path.read_bytes())
    except OSError:
        return None
