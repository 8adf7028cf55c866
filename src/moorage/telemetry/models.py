"""Tables of telemetry."""

from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.metrics.models import ContainerSampleRow, ContainerStepRow, GatewayReportRow
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow

__all__ = [
    "ContainerSampleRow",
    "ContainerStepRow",
    "GatewayReportRow",
    "LogCursorRow",
    "LogLineRow",
    "RequestHistogramRow",
    "RequestRecordRow",
]
