"""Where the roles meet on one machine."""

from pathlib import Path

from moorage.kit.settings import Settings


def api_socket_path(settings: Settings) -> Path:
    return settings.run_dir / "api.sock"


def request_log_path(settings: Settings) -> Path:
    return settings.run_dir / "requests.sock"
