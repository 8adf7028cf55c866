"""Of one cluster, as `MOORAGE_KUBERNETES_*` say."""

from dataclasses import dataclass, field

from moorage.engines.base import ImageRequest
from moorage.engines.kubernetes.figures import EVERY_S
from moorage.engines.kubernetes.look_inside import AFTER_S
from moorage.engines.kubernetes.namespace_body import NamespaceRules
from moorage.engines.kubernetes.nodes import Isolation
from moorage.engines.kubernetes.pod_body import ClusterOptions
from moorage.engines.kubernetes.reflector import SILENT_AFTER_S


@dataclass(frozen=True)
class ClusterSettings:
    rules: NamespaceRules
    options: ClusterOptions = field(default_factory=ClusterOptions)
    pull_address: str | None = None
    local_registry: str | None = None
    pull_timeout_s: float = 3600.0
    isolation: Isolation | None = None
    """What the operator answers for; None: it is tried, and what is not shown is closed."""
    looker: ImageRequest | None = None
    """The operator's own image, with `sh`, `cat` and `nc` in it, that looks into Pods and tries their isolation."""
    look_after_s: float = AFTER_S
    door: ImageRequest | None = None
    """The operator's own image, with `haproxy` in it, that proves beside each replica whose Pod it is. Without one replicas are reached
    by their addresses alone, and nothing new starts unless the operator answers for that (`isolation`)."""
    figures_every_s: float = EVERY_S
    silent_after_s: float = SILENT_AFTER_S
