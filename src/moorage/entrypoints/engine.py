"""Engines as the settings ask for them: the same ones for the controller and for `moor up`, which tries them."""

from moorage.engines.base import LOCAL_ENGINE, Engine, ImageRequest
from moorage.engines.docker.connection import UNIX_PREFIX
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.docker.firewall import LocalUse
from moorage.engines.doors import Doors
from moorage.engines.engines import Engines
from moorage.engines.hosts.host import HostReader
from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.cluster_settings import ClusterSettings
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.namespace_body import NamespaceRules, ServiceAccount
from moorage.engines.kubernetes.nodes import Isolation
from moorage.engines.kubernetes.pod_body import ClusterOptions
from moorage.kit.clock import system_clock
from moorage.kit.errors import SettingsError
from moorage.kit.home import user_ids_of_ours
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from moorage.outbound.pulls.proxy import PullProxy

CLUSTER = "kubernetes"
"""The name of the cluster's engine."""
UNTRIED = "nobody has tested whether this cluster's network enforces NetworkPolicies"


async def engines_from(
    settings: Settings, installation_id: InstallationId, pulls: PullProxy, doors: Doors | None = None
) -> Engines:
    """`doors` sign for what proves whose Pod is at an address. All that there are when the controller starts; more may join it (`Engines.add`)."""
    engines: dict[str, Engine] = {}
    if settings.kubernetes is not None:
        engines[CLUSTER] = kubernetes_engine(settings, settings.kubernetes, installation_id, pulls, doors)
    elif settings.docker_host is None:
        raise SettingsError(
            "The controller needs MOORAGE_DOCKER_HOST. Only `moor up` finds or starts an engine by itself."
        )
    if settings.docker_host is not None:
        docker = docker_engine(settings, settings.docker_host, installation_id, pulls)
        await docker.check_runtime()
        engines[LOCAL_ENGINE] = docker
    return Engines(engines, clusters={CLUSTER}, doors=doors)


def kubernetes_engine(
    settings: Settings, where: str, installation_id: InstallationId, pulls: PullProxy, doors: Doors | None
) -> KubernetesEngine:
    namespace, _, name = (settings.kubernetes_account or "").partition("/")
    waived = Isolation(weaknesses=(UNTRIED,)) if settings.isolation == "waived" else None
    cluster = ClusterSettings(
        rules=NamespaceRules(
            installation_id,
            callers=settings.kubernetes_callers,
            caller_networks=settings.kubernetes_caller_networks,
            closed_networks=settings.kubernetes_closed_networks,
            controller=ServiceAccount(namespace, name) if name else None,
        ),
        options=ClusterOptions(
            stop_grace_s=settings.stop_grace_s,
            cpu_overcommit=settings.cpu_overcommit,
            runtime_class=settings.kubernetes_runtime_class,
            host_users=settings.kubernetes_host_users,
        ),
        pull_address=settings.kubernetes_pull_address,
        local_registry=settings.kubernetes_local_registry,
        pull_timeout_s=settings.pull_timeout_s,
        isolation=waived,
        looker=ImageRequest(settings.kubernetes_looker_image, local=True)
        if settings.kubernetes_looker_image is not None
        else None,
        door=ImageRequest(settings.kubernetes_door_image, local=True)
        if settings.kubernetes_door_image is not None
        else None,
    )
    return KubernetesEngine(account_from(where), cluster, system_clock, pulls, doors)


def docker_engine(
    settings: Settings, docker_host: str, installation_id: InstallationId, pulls: PullProxy | None = None
) -> DockerEngine:
    return DockerEngine(
        docker_host,
        installation_id,
        system_clock,
        runtime=settings.container_runtime,
        local_use=LocalUse(settings.replica_port_range, user_ids_of_ours()),
        isolation_required=settings.isolation == "required",
        pulls=pulls,
        host=HostReader(
            wanted=settings.gpu_handover,
            sandbox=settings.container_runtime,
            is_local=docker_host.startswith(UNIX_PREFIX),
        ),
    )
