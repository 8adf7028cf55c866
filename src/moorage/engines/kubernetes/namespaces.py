"""The namespace of each organization, with everything that must lie in it before its first Pod."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from moorage.engines.kubernetes.connection import MERGE_PATCH, ApiError, ApiServer
from moorage.engines.kubernetes.names import ANNOTATION_BODIES, LABEL_INSTALLATION, namespace_of
from moorage.engines.kubernetes.namespace_body import (
    NamespaceRules,
    annotated,
    bodies_in,
    fingerprint_of,
    namespace_body,
)
from moorage.engines.kubernetes.reflector import list_all
from moorage.kit.clock import Clock
from moorage.kit.ids import OrganizationId

log = structlog.get_logger()

EMPTY_FOR_S = 900.0
"""So long a namespace without Pods stays: most organizations come back within the hour."""
_PATHS = {
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}
_NAMESPACES = "/api/v1/namespaces"
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_SETTLES_WITHIN_S = 10.0
_SETTLES_PAUSE_S = 0.05


@dataclass
class Namespaces:
    api: ApiServer
    clock: Clock
    rules: NamespaceRules
    _known: dict[str, str] = field(init=False, default_factory=dict)
    """By name: the fingerprint of what this process knows to lie in it."""
    _empty_since_s: dict[str, float] = field(init=False, default_factory=dict)
    _made_at_s: dict[str, float] = field(init=False, default_factory=dict)
    _users: "Counter[str]" = field(init=False, default_factory=Counter)
    """How many starts are under way in each."""
    _locks: "defaultdict[str, asyncio.Lock]" = field(
        init=False, default_factory=lambda: defaultdict(asyncio.Lock)
    )

    @asynccontextmanager
    async def used_by(
        self, organization_id: OrganizationId, node_addresses: Collection[str]
    ) -> AsyncIterator[str]:
        """Its namespace, which is there and stays there meanwhile."""
        name = namespace_of(self.rules.installation_id, organization_id)
        self._users[name] += 1
        try:
            async with self._locks[name]:
                bodies = bodies_in(name, self.rules, node_addresses)
                wanted = fingerprint_of(bodies)
                if self._known.get(name) != wanted:
                    await self._make(name, organization_id, bodies, wanted)
            yield name
        finally:
            self._users[name] -= 1
            self._empty_since_s.pop(name, None)

    async def create(self, namespace: str, what: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """In a namespace that was just made an API server refuses for a moment what it will allow: it has not heard of our
        rights yet, and knows of a quota, but not yet how much of it is used."""
        until_s = self._made_at_s.get(namespace, -math.inf) + _SETTLES_WITHIN_S
        while True:
            try:
                return await self.api.call(what, "POST", path, body=body)
            except ApiError as exc:
                if exc.status != _FORBIDDEN or self.clock.monotonic() > until_s:
                    raise
            await self.clock.sleep(_SETTLES_PAUSE_S)

    async def keep(self, node_addresses: Collection[str], in_use: Collection[str]) -> None:
        """Brings all of them up to date with the nodes, and removes those that nobody has used for long."""
        listed = await list_all(
            self.api,
            "list namespaces",
            _NAMESPACES,
            {"labelSelector": f"{LABEL_INSTALLATION}={self.rules.installation_id}"},
        )
        there = {
            one["metadata"]["name"]: one for one in listed.items if "deletionTimestamp" not in one["metadata"]
        }
        self._known = {name: seen for name, seen in self._known.items() if name in there}
        self._made_at_s = {name: at_s for name, at_s in self._made_at_s.items() if name in there}
        for name, namespace in there.items():
            async with self._locks[name]:
                bodies = bodies_in(name, self.rules, node_addresses)
                wanted = fingerprint_of(bodies)
                annotations = namespace["metadata"].get("annotations") or {}
                if annotations.get(ANNOTATION_BODIES) != wanted:
                    await self._fill(name, bodies, wanted)
                self._known[name] = wanted
                await self._remove_if_unused(name, namespace, is_used=name in in_use or self._users[name] > 0)

    async def _make(
        self, name: str, organization_id: OrganizationId, bodies: Sequence[dict[str, Any]], wanted: str
    ) -> None:
        try:
            await self.api.call(
                f"make namespace {name}",
                "POST",
                _NAMESPACES,
                body=namespace_body(self.rules, organization_id),
            )
        except ApiError as exc:
            if exc.status != _CONFLICT:
                raise
        else:
            self._made_at_s[name] = self.clock.monotonic()
        await self._fill(name, bodies, wanted)
        self._known[name] = wanted

    async def _fill(self, name: str, bodies: Sequence[dict[str, Any]], wanted: str) -> None:
        for body in bodies:
            await self._put(name, body)
        # Last: a namespace that says so has all of it.
        what = f"annotate namespace {name}"
        await self.api.call(
            what, "PATCH", f"{_NAMESPACES}/{name}", body=annotated(wanted), content_type=MERGE_PATCH
        )

    async def _put(self, namespace: str, body: dict[str, Any]) -> None:
        kind, name = body["kind"], body["metadata"]["name"]
        what, path = f"write {kind} {name} of {namespace}", _PATHS[kind].format(namespace)
        try:
            await self.create(namespace, what, path, body)
        except ApiError as exc:
            if exc.status != _CONFLICT:
                raise
        else:
            return
        if "spec" in body:  # of the others nothing ever changes
            await self.api.call(
                what, "PATCH", f"{path}/{name}", body={"spec": body["spec"]}, content_type=MERGE_PATCH
            )

    async def _remove_if_unused(self, name: str, namespace: Mapping[str, Any], *, is_used: bool) -> None:
        now_s = self.clock.monotonic()
        if is_used:
            self._empty_since_s.pop(name, None)
            return
        if now_s - self._empty_since_s.setdefault(name, now_s) < EMPTY_FOR_S:
            return
        self._known.pop(name, None)
        self._empty_since_s.pop(name, None)
        body = {"preconditions": {"uid": namespace["metadata"]["uid"]}}
        try:
            await self.api.call(f"remove namespace {name}", "DELETE", f"{_NAMESPACES}/{name}", body=body)
        except ApiError as exc:
            if exc.status not in (_NOT_FOUND, _CONFLICT):
                raise
        log.info("namespace_removed", namespace=name)
