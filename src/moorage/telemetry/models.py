"""Tables of telemetry."""

from moorage.telemetry.logs.models import LogCursorRow, LogLineRow

__all__ = ["LogCursorRow", "LogLineRow"]
