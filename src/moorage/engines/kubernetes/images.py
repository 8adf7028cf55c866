"""Images for a cluster. Nodes connect to nothing that a user named: they pull from the pull proxy, each Pod with a ticket of its
own (`outbound/pulls`), which lasts until its process has begun.

`ensure_image` asks the registry, pulls nothing and remembers what was asked for. A start needs that memory: without it, because
another process asked, the image counts as gone, and is ensured again with its owner's credentials.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import structlog

from moorage.engines.base import IMAGE_GONE, Failure, Image, ImageRequest
from moorage.engines.docker.images import pull_order, split_reference
from moorage.engines.kubernetes.observe import TicketState
from moorage.engines.nvidia import gpu_environment
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, ImageError
from moorage.kit.ids import OrganizationId, ReplicaId
from moorage.outbound.pulls.proxy import PullProxy
from moorage.outbound.pulls.ticket import PullOrder, Ticket
from moorage.outbound.registry.credentials import RegistryCredentials

log = structlog.get_logger()

_REMEMBERED = 10_000
_LOCAL = "local/"
_POD_WITHIN_S = 60.0
EVERYBODY = ""
"""In place of an organization: the operator's own images."""


@dataclass(frozen=True)
class PodImage:
    """What a Pod is told of its image."""

    name: str
    """By digest, at the pull proxy as nodes reach it."""
    credentials: RegistryCredentials = field(repr=False)
    architecture: str

    @property
    def repository(self) -> str:
        """What its credentials are for."""
        return self.name.partition("@")[0]


@dataclass
class _Open:
    ticket: Ticket
    image: PodImage
    stack: AsyncExitStack
    opened_at_s: float


@dataclass
class ClusterImages:
    proxy: PullProxy | None
    """Without one no image can be had."""
    nodes_reach_it_at: str | None
    """`host:port` of the proxy, as containerd on a node resolves it; by default on loopback, where it listens."""
    local_registry: str | None
    """Where `local/…` images are."""
    clock: Clock
    _orders: "OrderedDict[tuple[str, str], PullOrder]" = field(init=False, default_factory=OrderedDict)
    """By organization and `Image.engine_ref`."""
    _open: dict[ReplicaId, _Open] = field(init=False, default_factory=dict)
    _opening: dict[ReplicaId, asyncio.Lock] = field(init=False, default_factory=dict)

    async def ensure(self, request: ImageRequest, architectures: Collection[str]) -> Image:
        """Asks for each kind of machine in turn; the first that the image is built for is the one that it runs on."""
        return await self._first_that_fits(self._order(request), architectures)

    async def _first_that_fits(self, order: PullOrder, architectures: Collection[str]) -> Image:
        mismatch: ImageError | None = None
        for architecture in sorted(architectures):
            try:
                return await self._resolved(replace(order, architecture=architecture))
            except ImageError as exc:
                if exc.code != "image_architecture_mismatch":
                    raise
                mismatch = exc
        raise mismatch or EngineError("look for the image: no machine of the cluster answers")

    async def ticket(
        self,
        replica_id: ReplicaId,
        organization_id: OrganizationId,
        engine_ref: str,
        architecture: str | None = None,
    ) -> PodImage:
        """Asks the registry again, with the credentials of whoever deploys it. Several calls get the same ticket. It is for the
        architecture that was found when the image was ensured, if no other is named."""
        async with self._opening.setdefault(replica_id, asyncio.Lock()):
            if (already := self._open.get(replica_id)) is not None:
                return already.image
            order = self._orders.get((organization_id, engine_ref)) or self._orders.get(
                (EVERYBODY, engine_ref)
            )
            if order is None:
                raise EngineError(
                    f"The image of replica {replica_id} has to be looked for again.", code=IMAGE_GONE
                )
            proxy = self._proxy(order.reference)
            # Nodes pull, as many at once as their kubelets allow: a ticket that waits for a node takes nobody's share.
            order = replace(
                order,
                organization_id=OrganizationId(replica_id),
                architecture=architecture or order.architecture,
            )
            async with AsyncExitStack() as stack:
                ticket = await stack.enter_async_context(proxy.ticket(order))
                registry = self.nodes_reach_it_at or f"127.0.0.1:{proxy.port}"
                image = PodImage(
                    f"{registry}/{ticket.path}@{ticket.manifest_digest}",
                    ticket.credentials,
                    order.architecture,
                )
                self._open[replica_id] = _Open(ticket, image, stack.pop_all(), self.clock.monotonic())
                return image

    async def recall(self, engine_ref: str, architectures: Collection[str]) -> bool:
        """An operator's own image, which another process looked up: by its digest and without credentials, so anybody may
        ask for it again. False where it is not that, or cannot be had so."""
        if self.local_registry is None or not engine_ref.startswith(f"{self.local_registry}/"):
            return False
        try:
            await self._first_that_fits(PullOrder(engine_ref, None, "", None), architectures)
        except ImageError as exc:
            log.info("image_not_recalled", image=engine_ref, error=exc.message)
            return False
        return True

    def state(self, replica_id: ReplicaId, image: str) -> TicketState:
        """Of the ticket that a Pod with this image has; another process may have given it another."""
        found = self._open.get(replica_id)
        if found is None or found.image.name != image:
            return TicketState()
        trouble = found.ticket.refused.result() if found.ticket.refused.done() else None
        return TicketState(True, Failure(trouble.code, trouble.message) if trouble is not None else None)

    async def done(self, replica_id: ReplicaId) -> None:
        """Its process began, or it is gone: nobody pulls for it any more."""
        found = self._open.pop(replica_id, None)
        self._opening.pop(replica_id, None)
        if found is not None:
            await found.stack.aclose()

    async def keep_only(self, there: Collection[ReplicaId]) -> None:
        """What has no Pod any more pulls nothing; one that was asked for just now gets its Pod in a moment."""
        now_s = self.clock.monotonic()
        for replica_id, found in list(self._open.items()):
            # What is put beside a replica has the replica's id, and a word behind it.
            if (
                ReplicaId(replica_id.partition("/")[0]) not in there
                and now_s - found.opened_at_s > _POD_WITHIN_S
            ):
                await self.done(replica_id)

    async def close(self) -> None:
        for replica_id in list(self._open):
            await self.done(replica_id)

    def _order(self, request: ImageRequest) -> PullOrder:
        if not request.local:
            return pull_order(request, "")
        if self.local_registry is None or not request.reference.startswith(_LOCAL):
            raise ImageError(
                f"There is no image {request.reference}. A cluster's local images are in the registry that "
                "the operator names in MOORAGE_KUBERNETES_LOCAL_REGISTRY.",
                code="image_not_found",
            )
        reference = f"{self.local_registry}/{request.reference.removeprefix(_LOCAL)}"
        name, tag, digest = split_reference(reference)
        if digest:
            raise ImageError(
                f"Name a local image by its tag, not as {request.reference}.", code="image_not_found"
            )
        return PullOrder(f"{name}:{tag}", None, "", request.organization_id)

    async def _resolved(self, order: PullOrder) -> Image:
        proxy = self._proxy(order.reference)
        async with proxy.ticket(order) as ticket:
            facts, pinned = ticket.image.facts, ticket.digest
        name, _, _ = split_reference(order.reference)
        engine_ref = f"{name}@{pinned}"
        whose = order.organization_id or EVERYBODY
        assert whose != EVERYBODY or order.credentials is None, "a private image is somebody's"
        self._remember(whose, engine_ref, replace(order, reference=engine_ref))
        environment = [f"{name}={value}" for name, value in facts.environment.items()]
        return Image(
            engine_ref=engine_ref,
            digest=pinned,
            size_bytes=facts.size_bytes,
            architecture=order.architecture,
            exposed_ports=tuple(facts.exposed_ports),
            gpu_environment=gpu_environment(environment),
        )

    def _remember(self, organization: str, engine_ref: str, order: PullOrder) -> None:
        self._orders[organization, engine_ref] = order
        self._orders.move_to_end((organization, engine_ref))
        while len(self._orders) > _REMEMBERED:
            self._orders.popitem(last=False)

    def _proxy(self, reference: str) -> PullProxy:
        if self.proxy is None:
            raise EngineError(f"pull {reference}: this engine was given no way to pull images")
        return self.proxy
