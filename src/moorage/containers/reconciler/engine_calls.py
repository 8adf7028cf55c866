"""What the reconciler does to the engine, each call with its error turned into a reason.

Every call checks the lease first: a former leader starts and stops nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import structlog

from moorage.catalog.capacity import keeps_caches
from moorage.catalog.driver_fit import why_no_driver
from moorage.catalog.repository import find_instance_type, nodes_for
from moorage.containers.avoidance import Avoidance, avoided_nodes
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.preflight import pinned
from moorage.containers.reconciler import repository, trials
from moorage.containers.reconciler.fresh import FreshlySeen
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.local_images import LocalImages
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.reconciler.starts import Starts
from moorage.containers.reconciler.unfit import OF_THE_MACHINE, UnfitEngines
from moorage.containers.secrets import unseal
from moorage.containers.spec import (
    ContainerSecrets,
    ContainerSettings,
    RegistryProvider,
    chosen_port,
    environment_of,
)
from moorage.containers.start_times.measuring import Measured, of_pull
from moorage.containers.start_times.repository import record
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
_FETCHED_AT_ONCE = 4


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
    _local_images: LocalImages = field(init=False)
    unfit: UnfitEngines = field(init=False)
    fresh: FreshlySeen = field(init=False)

    def __post_init__(self) -> None:
        self._local_images = LocalImages(self.engines, self.clock)
        self.unfit = UnfitEngines(self.clock)
        self.fresh = FreshlySeen(self.clock)

    async def ensure_image(self, loaded: Loaded, engine: str, lease: Lease) -> None:
        found = await self.find_image(loaded, engine, lease)
        if self._may_run_elsewhere(loaded, engine, found):
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.record_image(session, loaded.container, found)

    async def prepare_trial(self, loaded: Loaded, engines: Sequence[str], lease: Lease) -> None:
        """The first of the engines says what the image is; the others get the same."""
        row, engine = loaded.container, engines[0]
        on_trial = replace(loaded, container=trials.on_trial(row))
        found = trials.local_image_from_before(row) or await self.find_image(
            on_trial, engine, lease, trials.digest_from_before(row)
        )
        if self._may_run_elsewhere(loaded, engine, found):
            return
        if isinstance(found, FoundImage) and found.digest is not None:
            for first in range(1, len(engines), _FETCHED_AT_ONCE):
                some = engines[first : first + _FETCHED_AT_ONCE]
                await asyncio.gather(*(self._fetch_too(on_trial, name, found, lease) for name in some))
        async with self.database.transaction() as session:
            await lease.guard(session)
            await trials.record_image(session, row, found)

    async def _fetch_too(self, loaded: Loaded, engine: str, found: FoundImage, lease: Lease) -> None:
        """Where that fails it is tried again when a replica starts there: the others need not wait for it."""
        try:
            image = await self._fetched(loaded, engine, found.digest, lease)
        except EngineError as exc:
            log.warning(
                "image_not_fetched_ahead", engine=engine, container_id=loaded.container.id, error=str(exc)
            )
            return
        if isinstance(image, Verdict):
            log.warning(
                "image_not_fetched_ahead",
                engine=engine,
                container_id=loaded.container.id,
                error=image.message,
            )
            return
        self._image_refs[engine, found.ref] = image.engine_ref

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
        image = ContainerSettings.from_json(loaded.container.settings).image
        names.sort(key=lambda name: self._local_images.has(image, name) is not True)
        said: list[FoundImage | Verdict | None] = []
        for first in range(0, len(names), _ASKED_AT_ONCE):
            some = names[first : first + _ASKED_AT_ONCE]
            said += await asyncio.gather(*(self._looked_up(loaded, name, lease) for name in some))
            if (found := next((one for one in said if isinstance(one, FoundImage)), None)) is not None:
                return found
        silent = [name for name, one in zip(names, said, strict=True) if one is None]
        if silent or not said:
            raise EngineError(
                f"No answer whether the image is there, from: {', '.join(silent) or 'any engine'}."
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
        said = {name: self._local_images.has(local_image, name) for name in sorted(names)}
        asked = [name for name, there in said.items() if there is None]
        has = await asyncio.gather(*(self._has(name, local_image) for name in asked))
        for name, there in zip(asked, has, strict=True):
            said[name] = there
            self._local_images.note(local_image, name, there=there)
        return {name for name, there in said.items() if there}

    async def _has(self, name: str, local_image: str) -> bool:
        try:
            async with asyncio.timeout(LOOKED_UP_WITHIN_S):
                request = ImageRequest(local_image, local=True)
                await self.engines.of(name).ensure_image(request, lambda _: None)
        except (ImageError, EngineError, TimeoutError) as exc:
            log.info("image_not_there", engine=name, image=local_image, error=str(exc))
            return False
        return True

    async def find_image(
        self, loaded: Loaded, engine: str, lease: Lease, digest: str | None = None
    ) -> FoundImage | Verdict:
        """The image of this deployment, or why it cannot be had; with a digest, that content and no other."""
        row = loaded.container
        settings = ContainerSettings.from_json(row.settings)
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
        began_s, pulled = self.clock.monotonic(), PullProgress(0, 0)

        def note(now: PullProgress) -> None:
            nonlocal pulled
            self.pull_progress[row.id] = pulled = now

        try:
            async with asyncio.timeout(limit_s):
                image = await self._image(loaded, self.engines.of(engine), digest, note)
        except ImageError as exc:
            return Verdict(Reason(exc.code), exc.message)
        except TimeoutError:
            return Verdict(Reason.PULL_TIMEOUT, f"The image was not pulled within {limit_s} s.")
        finally:
            self.pull_progress.pop(row.id, None)
        # A machine of somebody else says what it likes; more than the whole image it has not fetched.
        pulled_bytes = min(pulled.done_bytes, image.size_bytes)
        if found := of_pull(pulled_bytes, self.clock.monotonic() - began_s):
            await self._record_pull(loaded, engine, found, lease)
        return image

    async def _record_pull(
        self, loaded: Loaded, engine: str, found: Sequence[Measured], lease: Lease
    ) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await record(
                session,
                found,
                organization_id=loaded.organization_id,
                engine=engine,
                instance_type=loaded.instance_type.name,
                image=ContainerSettings.from_json(loaded.container.settings).image,
            )

    async def _usable(self, found: FoundImage, settings: ContainerSettings) -> FoundImage | Verdict:
        """Not where the driver of every machine that has the GPU is too old for it: it would wait for ever."""
        if not found.gpu_environment:
            return found
        async with self.database.reading() as session:
            wanted = await find_instance_type(session, settings.instance_type)
            if wanted is None or not wanted.gpu_count:
                return found
            because = why_no_driver(wanted, await nodes_for(session, wanted), found.gpu_environment)
        return found if because is None else Verdict(Reason.GPU_DRIVER_MISMATCH, because)

    def _gpu_environment(self, row: ContainerRow, image: Image) -> dict[str, str]:
        """The image's, with what the user says of the same."""
        said = {name: value for name, value in self._environment(row).items() if name in GPU_VARIABLES}
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
            if exc.code == IMAGE_GONE:
                # Its machine has not got it yet, or somebody pruned it. The next pass has it brought there; where it cannot be
                # had, that is this replica's failure, and those that serve from it go on.
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

    async def _image(
        self, loaded: Loaded, engine: Engine, digest: str | None, note: Callable[[PullProgress], None]
    ) -> Image:
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
        return await engine.ensure_image(request, note)

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
            environment={"PORT": str(row.port), **self._environment(row)},
            port=row.port,
            host_port=replica.host_port,
            vcpu_millis=loaded.instance_type.vcpu_millis,
            memory_bytes=loaded.instance_type.memory_bytes,
            disk_bytes=loaded.instance_type.disk_bytes,
            gpu_device_ids=tuple(replica.gpu_device_ids),
            gpu_model=loaded.instance_type.gpu_model,
            avoided_nodes=avoided,
            cache=_cache(loaded, replica, settings),
        )

    def _environment(self, row: ContainerRow) -> dict[str, str]:
        return environment_of(ContainerSettings.from_json(row.settings), self._secrets(row))

    def _secrets(self, row: ContainerRow) -> ContainerSecrets:
        return unseal(self.keyring, row.id, row.secrets)


def _cache(loaded: Loaded, replica: ReplicaRow, settings: ContainerSettings) -> CacheSpec | None:
    """On machines of strangers nothing of it stays behind: they could read it, and change what the next start runs."""
    if settings.cache_bytes is None:
        return None
    return CacheSpec(settings.cache_bytes, kept=keeps_caches(loaded.type_of(replica)))
