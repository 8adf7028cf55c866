"""Tables of telemetry."""

from moorage.telemetry.capsules.models import CrashCapsuleRow
from moorage.telemetry.logs.budget.models import LogVolumeRow
from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.metrics.models import ContainerSampleRow, ContainerStepRow, GatewayReportRow
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow
from moorage.telemetry.usage.models import ReplicaUsageRow

__all__ = [
    "ContainerSampleRow",
    "ContainerStepRow",
    "CrashCapsuleRow",
    "GatewayReportRow",
    "LogCursorRow",
    "LogLineRow",
    "LogVolumeRow",
    "ReplicaUsageRow",
    "RequestHistogramRow",
    "RequestRecordRow",
]
