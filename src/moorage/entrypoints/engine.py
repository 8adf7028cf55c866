"""Engines as the settings ask for them: the same ones for the controller and for `moor up`, which tries them."""

from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.docker.connection import UNIX_PREFIX
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.docker.firewall import LocalUse
from moorage.engines.engines import Engines
from moorage.engines.hosts.host import HostReader
from moorage.kit.clock import system_clock
from moorage.kit.errors import SettingsError
from moorage.kit.home import user_ids_of_ours
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from moorage.outbound.pulls.proxy import PullProxy


async def engines_from(settings: Settings, installation_id: InstallationId, pulls: PullProxy) -> Engines:
    """All that there are when the controller starts; more may join it (`Engines.add`)."""
    if settings.docker_host is None:
        raise SettingsError(
            "The controller needs MOORAGE_DOCKER_HOST; `moor up` finds or starts an engine by itself."
        )
    engine = docker_engine(settings, settings.docker_host, installation_id, pulls)
    await engine.check_runtime()
    return Engines({LOCAL_ENGINE: engine})


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
