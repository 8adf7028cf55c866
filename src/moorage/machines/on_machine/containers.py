"""What an installation has on this machine's engine, ended when the machine leaves it."""

import asyncio

from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError, SetupError
from moorage.kit.ids import InstallationId

STOP_GRACE_S = 10.0


async def end_containers(docker_host: str, installation_id: InstallationId) -> int:
    """Containers with the secrets in their environment, their caches, the images that were pulled for them, their network and its firewall
    rules; how many containers there were. Safe to repeat, and whatever else runs on the engine is not touched.

    Raises `SetupError` where the engine does not answer: then they are still there.
    """
    engine = DockerEngine(docker_host, installation_id, system_clock)
    try:
        replicas = await engine.list_replicas()
        await asyncio.gather(*(engine.stop(one.engine_id, STOP_GRACE_S) for one in replicas))
        await asyncio.gather(*(engine.remove(one.engine_id) for one in replicas))
        for image in await engine.pulled_images():
            await engine.remove_image(image.engine_ref)
        await engine.dismantle()
    except EngineError as exc:
        raise SetupError(
            f"Cannot end the installation's containers here: {exc.message.rstrip('.')}. Start Docker and run "
            "`moor-node leave` again, or leave without ending them with `--force`."
        ) from exc
    finally:
        await engine.close()
    return len(replicas)
