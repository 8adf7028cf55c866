"""What the reconciler does to the engine, each call with its error turned into a reason.

Every call checks the lease first: a former leader starts and stops nothing.
"""

import asyncio
from dataclasses import dataclass, field

from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.repository import Loaded
from moorage.containers.registry_address import check_registry_address
from moorage.containers.secrets import unseal
from moorage.containers.spec import ContainerSecrets, ContainerSettings, RegistryProvider, chosen_port
from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import Engine, Image, ImageRequest, PullProgress, RegistryCredentials, ReplicaSpec
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import ContainerId, OrganizationId, ProjectId, ReplicaId
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease


@dataclass
class EngineCalls:
    database: Database
    engine: Engine
    keyring: Keyring
    settings: Settings
    pull_progress: dict[str, PullProgress] = field(default_factory=dict)

    async def ensure_image(self, loaded: Loaded, lease: Lease) -> None:
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
        lease.check()
        try:
            async with asyncio.timeout(self.settings.pull_timeout_s):
                image = await self._image(row, settings)
            failure = None
        except ImageError as exc:
            failure = Verdict(Reason(exc.code), exc.message)
        except TimeoutError:
            limit_s = self.settings.pull_timeout_s
            failure = Verdict(Reason.PULL_TIMEOUT, f"The image was not pulled within {limit_s} s.")
        finally:
            self.pull_progress.pop(row.id, None)
        async with self.database.transaction() as session:
            await lease.guard(session)
            if failure is not None:
                await repository.record_deployment_failure(session, row, failure)
            else:
                port = chosen_port(settings.port, image.exposed_ports)
                await repository.record_image(session, row, image.engine_ref, image.digest, port)

    async def start(self, loaded: Loaded, replica: ReplicaRow, lease: Lease) -> None:
        lease.check()
        try:
            observed = await self.engine.start(self._spec(loaded, replica))
        except StartError as exc:
            await self._record_start_failure(
                replica, Verdict(Reason(exc.code), exc.message), lease, badly=True
            )
        except EngineError as exc:
            if exc.code != Reason.PORT_TAKEN:
                raise
            # Somebody outside Moorage has that port. Not the container's fault: a new replica gets another.
            await self._record_start_failure(
                replica, Verdict(Reason.PORT_TAKEN, exc.message), lease, badly=False
            )
        else:
            # A pass would see it too, but then the first health check would wait for one more.
            async with self.database.transaction() as session:
                await lease.guard(session)
                await repository.record_start(session, replica.id, observed)

    async def stop(self, engine_id: str, lease: Lease) -> None:
        lease.check()
        await self.engine.stop(engine_id, self.settings.stop_grace_s)

    async def remove(self, engine_id: str, lease: Lease) -> None:
        lease.check()
        await self.engine.remove(engine_id)

    async def _image(self, row: ContainerRow, settings: ContainerSettings) -> Image:
        local = settings.registry_provider is RegistryProvider.LOCAL
        if not local:
            await check_registry_address(settings.image, self.settings.allowed_registries)
        secrets = self._secrets(row)
        credentials = None
        if settings.registry_username is not None:
            credentials = RegistryCredentials(settings.registry_username, secrets.registry_password or "")
        request = ImageRequest(settings.image, credentials, local)
        return await self.engine.ensure_image(
            request, lambda now: self.pull_progress.__setitem__(row.id, now)
        )

    async def _record_start_failure(
        self, replica: ReplicaRow, verdict: Verdict, lease: Lease, *, badly: bool
    ) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.record_start_failure(session, replica.id, verdict, badly=badly)

    def _spec(self, loaded: Loaded, replica: ReplicaRow) -> ReplicaSpec:
        row = loaded.container
        assert row.image_ref is not None, "a replica is created only for a known image"
        assert row.port is not None, "which comes with the image"
        settings = ContainerSettings.from_json(row.settings)
        return ReplicaSpec(
            replica_id=ReplicaId(replica.id),
            container_id=ContainerId(row.id),
            project_id=ProjectId(row.project_id),
            organization_id=OrganizationId(loaded.organization_id),
            slot=replica.slot,
            generation=replica.generation,
            image=row.image_ref,
            command=settings.command,
            environment={"PORT": str(row.port), **self._secrets(row).environment},
            port=row.port,
            host_port=replica.host_port,
            vcpu_millis=loaded.instance_type.vcpu_millis,
            memory_bytes=loaded.instance_type.memory_bytes,
            disk_bytes=loaded.instance_type.disk_bytes,
            gpu_device_ids=tuple(replica.gpu_device_ids),
        )

    def _secrets(self, row: ContainerRow) -> ContainerSecrets:
        return unseal(self.keyring, row.id, row.secrets)
