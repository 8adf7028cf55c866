"""Tables of telemetry."""

from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow

__all__ = ["LogCursorRow", "LogLineRow", "RequestHistogramRow", "RequestRecordRow"]
