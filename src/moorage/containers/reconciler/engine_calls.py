"""What the reconciler does to the engine, each call with its error turned into a reason.

Every call checks the lease first: a former leader starts and stops nothing.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import structlog

from moorage.catalog.capacity import keeps_caches
from moorage.catalog.driver_fit import why_no_driver
from moorage.catalog.repository import find_instance_type, list_nodes
from moorage.containers.avoidance import Avoidance, avoided_nodes
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.preflight import pinned
from moorage.containers.reconciler import repository, trials
from moorage.containers.reconciler.fresh import FreshlySeen
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.reconciler.starts import Starts
from moorage.containers.reconciler.unfit import OF_THE_MACHINE, UnfitEngines
from moorage.containers.secrets import unseal
from moorage.containers.spec import ContainerSecrets, ContainerSettings, RegistryProvider, chosen_port
from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import (
    IMAGE_GONE,
    CacheSpec,
    Engine,
    Image,
    ImageRequest,
    PullProgress,
    ReplicaSpec,
)
from moorage.engines.engines import Engines
from moorage.engines.nvidia import GPU_VARIABLES
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import ContainerId, OrganizationId, ProjectId, ReplicaId
from moorage.kit.settings import Settings
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

STARTS_TRIED = 5
"""In a row, with the pauses between them: longer than an engine takes to be started anew."""
LOOKED_UP_WITHIN_S = 5.0
"""An image of one machine among several: a pass waits for the answer."""
_ASKED_AT_ONCE = 16


@dataclass
class EngineCalls:
    database: Database
    engines: Engines
    keyring: Keyring
    settings: Settings
    clock: Clock
    pull_progress: dict[str, PullProgress] = field(default_factory=dict)
    starts: Starts = field(default_factory=Starts)
    _image_refs: dict[tuple[str, str], str] = field(default_factory=dict)
    """By engine and the image's name in the container's row: the engine's own name for it, where that is another; and of local
    images every name that the engine itself gave."""
    unfit: UnfitEngines = field(init=False)
    fresh: FreshlySeen = field(init=False)

    def __post_init__(self) -> None:
        self.unfit = UnfitEngines(self.clock)
        self.fresh = FreshlySeen(self.clock)

    async def ensure_image(self, loaded: Loaded, engine: str, lease: Lease) -> None:
        found = await self.find_image(loaded, engine, lease)
        if self._may_run_elsewhere(loaded, engine, found):
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.record_image(session, loaded.container, found)

    async def prepare_trial(self, loaded: Loaded, engine: str, lease: Lease) -> None:
        row = loaded.container
        found = trials.local_image_from_before(row) or await self.find_image(
            replace(loaded, container=trials.on_trial(row)), engine, lease
        )
        if self._may_run_elsewhere(loaded, engine, found):
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await trials.record_image(session, row, found)

    def _may_run_elsewhere(self, loaded: Loaded, engine: str, found: FoundImage | Verdict) -> bool:
        """The machine is at fault, and not every one was tried: the next pass asks another."""
        if not isinstance(found, Verdict) or found.reason not in OF_THE_MACHINE:
            return False
        if engine in self.unfit.of(loaded.container):
            return False
        self.unfit.add(loaded.container, engine, found.reason)
        return not self.engines.by_name().keys() <= self.unfit.of(loaded.container)

    async def find_local_image(self, loaded: Loaded, lease: Lease) -> FoundImage | Verdict:
        """On the first machine that has it. Where none has and all were asked, what one of them said; one that does not answer
        may be the one that has it."""
        names = list(self.engines.by_name())
        if len(names) == 1:
            return await self.find_image(loaded, names[0], lease)
        said: list[FoundImage | Verdict | None] = []
        for first in range(0, len(names), _ASKED_AT_ONCE):
            some = names[first : first + _ASKED_AT_ONCE]
            said += await asyncio.gather(*(self._looked_up(loaded, name, lease) for name in some))
            if (found := next((one for one in said if isinstance(one, FoundImage)), None)) is not None:
                return found
        silent = [name for name, one in zip(names, said, strict=True) if one is None]
        if silent or not said:
            raise EngineError(
                f"Whether the image is there is not known of: {', '.join(silent) or 'no engine'}."
            )
        return next(one for one in said if one is not None)

    async def _looked_up(self, loaded: Loaded, name: str, lease: Lease) -> FoundImage | Verdict | None:
        try:
            async with asyncio.timeout(LOOKED_UP_WITHIN_S):
                return await self.find_image(loaded, name, lease)
        except (EngineError, TimeoutError) as exc:
            log.warning("image_not_looked_up", engine=name, error=repr(exc))
            return None

    async def engines_with(self, local_image: str, names: Collection[str]) -> set[str]:
        """Those on whose machine the operator built it. All are asked at once: one that hangs holds up the pass once."""
        asked = sorted(names)
        has = await asyncio.gather(*(self._has(name, local_image) for name in asked))
        return {name for name, there in zip(asked, has, strict=True) if there}

    async def _has(self, name: str, local_image: str) -> bool:
        try:
            async with asyncio.timeout(LOOKED_UP_WITHIN_S):
                request = ImageRequest(local_image, local=True)
                await self.engines.of(name).ensure_image(request, lambda _: None)
        except (ImageError, EngineError, TimeoutError) as exc:
            log.info("image_not_there", engine=name, image=local_image, error=str(exc))
            return False
        return True

    async def find_image(self, loaded: Loaded, engine: str, lease: Lease) -> FoundImage | Verdict:
        """The image of this deployment, or why it cannot be had."""
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
        lost = row.image_lost_generation == row.generation and row.image_digest is not None
        digest = row.image_digest if lost else None
        image = await self._fetched(loaded, engine, digest, lease)
        if isinstance(image, Verdict):
            return image
        if settings.registry_provider is RegistryProvider.LOCAL:
            self._image_refs[engine, image.engine_ref] = image.engine_ref
        port = chosen_port(settings.port, image.exposed_ports)
        found = FoundImage(image.engine_ref, image.digest, port, self._gpu_environment(row, image))
        return await self._usable(found, settings)

    async def _fetched(
        self, loaded: Loaded, engine: str, digest: str | None, lease: Lease
    ) -> Image | Verdict:
        """On the engine's machine; with a digest, that content and no other."""
        row, limit_s = loaded.container, self.settings.pull_timeout_s
        lease.check()
        try:
            async with asyncio.timeout(limit_s):
                return await self._image(loaded, self.engines.of(engine), digest)
        except ImageError as exc:
            return Verdict(Reason(exc.code), exc.message)
        except TimeoutError:
            return Verdict(Reason.PULL_TIMEOUT, f"The image was not pulled within {limit_s} s.")
        finally:
            self.pull_progress.pop(row.id, None)

    async def _usable(self, found: FoundImage, settings: ContainerSettings) -> FoundImage | Verdict:
        """Not where the driver of every machine that has the GPU is too old for it: it would wait for ever."""
        if not found.gpu_environment:
            return found
        async with self.database.reading() as session:
            wanted = await find_instance_type(session, settings.instance_type)
            if wanted is None or not wanted.gpu_count:
                return found
            because = why_no_driver(wanted, await list_nodes(session), found.gpu_environment)
        return found if because is None else Verdict(Reason.GPU_DRIVER_MISMATCH, because)

    def _gpu_environment(self, row: ContainerRow, image: Image) -> dict[str, str]:
        """The image's, with what the user says of the same."""
        said = {
            name: value for name, value in self._secrets(row).environment.items() if name in GPU_VARIABLES
        }
        return {**image.gpu_environment, **said}

    async def start(self, loaded: Loaded, replica: ReplicaRow, lease: Lease) -> None:
        lease.check()
        if self._is_named_by_another(loaded, replica):
            await self.bring_image(loaded, replica, lease)
            if self._is_named_by_another(loaded, replica):
                return  # It has no such image: that is written down.
        words = self.fresh.words
        try:
            started = await self.engines.of(replica.engine).start(self._spec(loaded, replica))
            self.starts.note_start(replica)
            self.fresh.put(replica.container_id, started, words)
        except StartError as exc:
            await self._record_start_failure(
                replica, Verdict(Reason(exc.code), exc.message), lease, badly=True
            )
        except EngineError as exc:
            if exc.code == IMAGE_GONE and self.engines.only(replica.engine):
                # Somebody pruned it. Nobody's fault: it is fetched again, and the replica's row waits for it.
                await self._forget_image(loaded, lease)
                return
            if exc.code == IMAGE_GONE:
                # Of several machines this one has not got it yet. The next pass has it brought there.
                self.starts.note_lack_of_image(replica)
                return
            if exc.code != Reason.PORT_TAKEN:
                if await self._gave_up_there(loaded, replica, exc, lease):
                    return
                raise
            # Somebody outside Moorage has that port. Not the container's fault: a new replica gets another.
            await self._record_start_failure(
                replica, Verdict(Reason.PORT_TAKEN, exc.message), lease, badly=False
            )

    async def _gave_up_there(
        self, loaded: Loaded, replica: ReplicaRow, error: EngineError, lease: Lease
    ) -> bool:
        """An engine that answers and cannot start it may be so for days: after a few tries another machine is asked."""
        failed = self.starts.note_failure(replica)
        verdict = Verdict(Reason.ENGINE_ERROR, error.message)
        if failed < STARTS_TRIED or not self._may_run_elsewhere(loaded, replica.engine, verdict):
            return False
        await self._record_start_failure(replica, verdict, lease, badly=False)
        return True

    def _is_named_by_another(self, loaded: Loaded, replica: ReplicaRow) -> bool:
        """A registry vouches for a digest, and for a local image nobody but the machine that has it: what one of them calls by
        that name may be anybody's image on another."""
        row = loaded.container
        local = ContainerSettings.from_json(row.settings).registry_provider is RegistryProvider.LOCAL
        known = (replica.engine, row.image_ref) in self._image_refs
        return local and not known and not self.engines.only(replica.engine)

    async def bring_image(self, loaded: Loaded, replica: ReplicaRow, lease: Lease) -> None:
        """The image that this deployment runs, to the machine of one of its replicas."""
        row = loaded.container
        image = await self._fetched(loaded, replica.engine, row.image_digest, lease)
        self.starts.note_image(replica)
        if isinstance(image, Verdict):
            elsewhere = self._may_run_elsewhere(loaded, replica.engine, image)
            await self._record_start_failure(replica, image, lease, badly=not elsewhere)
        elif row.image_ref is not None:
            self._image_refs[replica.engine, row.image_ref] = image.engine_ref

    async def stop(self, engine: str, engine_id: str, lease: Lease) -> None:
        lease.check()
        await self.engines.of(engine).stop(engine_id, self.settings.stop_grace_s)

    async def kill(self, engine: str, engine_id: str, lease: Lease) -> None:
        lease.check()
        await self.engines.of(engine).stop(engine_id, 0)

    async def remove(self, engine: str, engine_id: str, lease: Lease) -> None:
        lease.check()
        await self.engines.of(engine).remove(engine_id)

    async def _image(self, loaded: Loaded, engine: Engine, digest: str | None) -> Image:
        """The engine pins what it found, so every replica of this deployment runs the same image."""
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
        if settings.registry_provider is RegistryProvider.LOCAL:
            return await engine.ensure_image(ImageRequest(settings.image, local=True), lambda _: None)
        credentials = None
        if settings.registry_username is not None:
            password = self._secrets(row).registry_password or ""
            credentials = RegistryCredentials(settings.registry_username, password)
        image = pinned(settings.image, digest) if digest is not None else settings.image
        request = ImageRequest(image, credentials, organization_id=OrganizationId(loaded.organization_id))
        return await engine.ensure_image(request, lambda now: self.pull_progress.__setitem__(row.id, now))

    async def _forget_image(self, loaded: Loaded, lease: Lease) -> None:
        log.warning("image_gone", container_id=loaded.container.id, image=loaded.container.image_ref)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.forget_image(session, loaded.container)

    async def _record_start_failure(
        self, replica: ReplicaRow, verdict: Verdict, lease: Lease, *, badly: bool
    ) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.record_start_failure(session, replica.id, verdict, badly=badly)

    def _spec(self, loaded: Loaded, replica: ReplicaRow) -> ReplicaSpec:
        row = loaded.container
        avoided = avoided_nodes(
            Avoidance.from_json(row.avoidance),
            generation=row.generation,
            serving_generation=row.serving_generation,
            now=loaded.now,
        )
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
            image=self._image_refs.get((replica.engine, row.image_ref), row.image_ref),
            command=settings.command,
            environment={"PORT": str(row.port), **self._secrets(row).environment},
            port=row.port,
            host_port=replica.host_port,
            vcpu_millis=loaded.instance_type.vcpu_millis,
            memory_bytes=loaded.instance_type.memory_bytes,
            disk_bytes=loaded.instance_type.disk_bytes,
            gpu_device_ids=tuple(replica.gpu_device_ids),
            gpu_model=loaded.instance_type.gpu_model,
            avoided_nodes=avoided,
            cache=_cache(loaded, settings),
        )

    def _secrets(self, row: ContainerRow) -> ContainerSecrets:
        return unseal(self.keyring, row.id, row.secrets)


def _cache(loaded: Loaded, settings: ContainerSettings) -> CacheSpec | None:
    """On machines of strangers nothing of it stays behind: they could read it, and change what the next start runs."""
    if settings.cache_bytes is None:
        return None
    return CacheSpec(settings.cache_bytes, kept=keeps_caches(loaded.instance_type))
