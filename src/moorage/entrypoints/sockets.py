"""Where the roles meet on one machine."""

from pathlib import Path

from moorage.kit.settings import Settings


def api_socket_path(settings: Settings) -> Path:
    return settings.run_dir / "api.sock"


def request_log_path(settings: Settings) -> Path:
    return settings.run_dir / "requests.sock"


def holder_path(settings: Settings) -> Path:
    return settings.run_dir / "holder.sock"


def released_path(settings: Settings) -> Path:
    return settings.run_dir / "released.sock"


def in_step_path(settings: Settings) -> Path:
    """There from the first moment that HAProxy served what the rows said."""
    return settings.run_dir / "gateway-in-step"
