"""A stand-in for a cluster's API server: HTTPS, bearer token, the paths that Moorage uses, and the ways in which a real one
disappoints: watches that end, versions that are forgotten, silence, refusals, replies that are lost.

It keeps what it is told and enforces what Moorage relies on: unique names, uids, preconditions, what of a Pod may change, that a
namespace, an account and a priority class are there before a Pod. It checks no rights, and runs no admission policy: those are
tried against a real one.
"""

import asyncio
import base64
import copy
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.kubernetes.node_terms import wrong_term
from tests.kubernetes.selecting import PatchError, json_patched, matches_fields, matches_labels, merged
from tests.kubernetes.store import Key, Store, StoreError, now_text

TOKEN = "stand-in-token"
VERSION = "v1.32.13"
BOOKMARK_EVERY_S = 0.5
_CLUSTER_WIDE = frozenset({"nodes", "namespaces", "priorityclasses", "clusterroles", "clusterrolebindings"})
_KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "secrets": "Secret"}
_ENDED = ("Succeeded", "Failed")
_MUTABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")

LogReader = Callable[[dict[str, Any], web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Faults:
    """What goes wrong, until it is set back."""

    refuse: list[tuple[str, str, int]] = field(default_factory=list)
    """(method, part of the path, status): each is answered once, and used up."""
    lose_reply: list[tuple[str, str]] = field(default_factory=list)
    """(method, part of the path): done, and the connection cut before the answer."""
    silent: bool = False
    """Watches say nothing more, bookmarks included, and stay open."""
    hangs: asyncio.Event | None = None
    """Nothing is answered until it is set."""


class StandIn:
    def __init__(self, certificate: Path) -> None:
        self.store = Store()
        self.faults = Faults()
        self.requests: list[tuple[str, str]] = []
        self.read_log: LogReader | None = None
        self.figures: Callable[[], str] = str
        self._certificate = certificate
        self._watches: set[asyncio.Event] = set()
        self._continued: dict[str, tuple[list[dict[str, Any]], str]] = {}
        for name in ("kube-system", "default"):
            self.store.create(("namespaces", "", name), {"metadata": {}, "status": {"phase": "Active"}})

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._certificate)
        self._tls = tls
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults = Faults()
        self.end_watches()
        await self._runner.cleanup()

    def kubeconfig(self) -> dict[str, Any]:
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority-data": base64.b64encode(self._certificate.read_bytes()).decode(),
        }
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }

    def end_watches(self) -> None:
        """As an API server does every half hour or so."""
        for ended in self._watches:
            ended.set()
        self.store.wake()

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        if self.faults.hangs is not None:
            await self.faults.hangs.wait()
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized", "Unauthorized")
        for refusal in self.faults.refuse:
            method, part, status = refusal
            if request.method == method and part in request.path_qs:
                self.faults.refuse.remove(refusal)
                headers = {"Retry-After": "1"} if status == 429 else {}
                reason = {429: "TooManyRequests", 500: "InternalError", 409: "Conflict"}.get(status, "")
                return _status(status, reason, "refused by the test", headers)
        try:
            response = await self._route(request)
        except StoreError as exc:
            response = _status(exc.status, exc.reason, str(exc))
        except PatchError as exc:
            response = _status(exc.status, "Invalid", str(exc))
        for loss in self.faults.lose_reply:
            method, part = loss
            if request.method == method and part in request.path_qs and request.transport is not None:
                self.faults.lose_reply.remove(loss)
                request.transport.abort()
        return response

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/version":
            return web.json_response({"major": "1", "minor": "32", "gitVersion": VERSION})
        if path == "/metrics/resource":
            return web.Response(text=self.figures())
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, *rest = parts
        if not rest:
            if request.method == "POST":
                return await self._create(request, kind, namespace)
            if request.query.get("watch") in ("1", "true"):
                return await self._watch(request, kind, namespace)
            return self._list(request, kind, namespace)
        key: Key = (kind, namespace, rest[0])
        if rest[1:] == ["log"] and self.read_log is not None:
            return await self.read_log(self.store.get(key), request)
        if rest[1:] == ["eviction"]:
            return self._evict(key)
        if request.method == "GET":
            return web.json_response(self.store.get(key))
        if rest[1:] == ["ephemeralcontainers"]:
            return web.json_response(await self._add_containers(request, key))
        if request.method == "PATCH":
            return web.json_response(await self._patch(request, key))
        if request.method == "DELETE":
            return web.json_response(await self._delete(request, key))
        return _status(405, "MethodNotAllowed", "the server does not allow this method")

    async def _create(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        body = await request.json()
        if namespace and ("namespaces", "", namespace) not in self.store.objects:
            raise StoreError(404, "NotFound", f'namespaces "{namespace}" not found')
        if namespace and "deletionTimestamp" in self.store.get(("namespaces", "", namespace))["metadata"]:
            raise StoreError(403, "Forbidden", f"namespace {namespace} is being terminated")
        name = body["metadata"]["name"]
        if kind == "pods":
            self._admit(body, namespace, name)
        if kind == "namespaces":
            body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
            body["status"] = {"phase": "Active"}
        return web.json_response(self.store.create((kind, namespace, name), body), status=201)

    def _admit(self, body: dict[str, Any], namespace: str, name: str) -> None:
        spec = body["spec"]
        if ("pods", namespace, name) in self.store.objects:
            return  # refused for that, before anything else is looked at
        affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in required.get("nodeSelectorTerms", ()):
            if (wrong := wrong_term(term)) is not None:
                raise StoreError(422, "Invalid", f'Pod "{name}" is invalid: {wrong}')
        account, priority = spec.get("serviceAccountName", "default"), spec.get("priorityClassName")
        refused = f'pods "{name}" is forbidden: '
        if ("serviceaccounts", namespace, account) not in self.store.objects:
            raise StoreError(
                403,
                "Forbidden",
                f'{refused}error looking up service account {namespace}/{account}: serviceaccount "{account}" not found',
            )
        if priority and ("priorityclasses", "", priority) not in self.store.objects:
            raise StoreError(403, "Forbidden", f"{refused}no PriorityClass with name {priority} was found")
        for quota in self.store.all("resourcequotas", namespace):
            most = int(quota["spec"]["hard"].get("pods", 10**6))
            used = sum(1 for one in self.store.all("pods", namespace) if one["status"]["phase"] not in _ENDED)
            if used + 1 > most:
                raise StoreError(
                    403,
                    "Forbidden",
                    f"{refused}exceeded quota: {quota['metadata']['name']}, requested: pods=1, used: pods={used}, limited: pods={most}",
                )
        gated = bool(spec.get("schedulingGates"))
        conditions = [_condition("PodScheduled", "False", "SchedulingGated")] if gated else []
        body["status"] = {"phase": "Pending", "conditions": conditions, "qosClass": "Burstable"}

    def _list(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        token = request.query.get("continue")
        if token is not None:
            if token not in self._continued:
                raise StoreError(
                    410,
                    "Expired",
                    "The provided continue parameter is too old to display a consistent list result.",
                )
            items, version = self._continued.pop(token)
        else:
            items = [copy.deepcopy(one) for one in self.store.all(kind, namespace) if _chosen(one, request)]
            version = str(self.store.version)
        limit = int(request.query.get("limit", "0")) or len(items) + 1
        metadata: dict[str, Any] = {"resourceVersion": version}
        if len(items) > limit:
            metadata["continue"] = f"{version}.{len(items)}"
            metadata["remainingItemCount"] = len(items) - limit
            self._continued[metadata["continue"]] = items[limit:], version
        body = {
            "kind": f"{_KINDS.get(kind, kind)}List",
            "apiVersion": "v1",
            "metadata": metadata,
            "items": items[:limit],
        }
        return web.json_response(body)

    async def forget_old_versions(self) -> None:
        self.store.compact()
        self._continued.clear()

    async def _watch(self, request: web.Request, kind: str, namespace: str) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        ended, waker = asyncio.Event(), self.store.waker()
        self._watches.add(ended)
        try:
            await response.prepare(request)
            await self._tell_all(response, request, kind, namespace, version, ended, waker)
        except ConnectionError:
            pass  # whoever watched is gone
        finally:
            self._watches.discard(ended)
            self.store.forget(waker)
        return response

    async def _tell_all(
        self,
        response: web.StreamResponse,
        request: web.Request,
        kind: str,
        namespace: str,
        version: int,
        ended: asyncio.Event,
        waker: asyncio.Event,
    ) -> None:
        shown: dict[str, bool] = {}
        while not ended.is_set():
            waker.clear()
            try:
                changes = self.store.since(version) if not self.faults.silent else []
            except StoreError as exc:
                body = _status_body(410, "Expired", str(exc))
                await response.write(_line({"type": "ERROR", "object": body}))
                break
            for change in changes:
                version = change.version
                if change.kind == kind and (
                    not namespace or change.item["metadata"]["namespace"] == namespace
                ):
                    await self._tell(response, request, change.type, change.item, shown)
            try:
                async with asyncio.timeout(BOOKMARK_EVERY_S):
                    await waker.wait()
            except TimeoutError:
                if request.query.get("allowWatchBookmarks") == "true" and not self.faults.silent:
                    item = {"kind": _KINDS.get(kind, kind), "metadata": {"resourceVersion": str(version)}}
                    await response.write(_line({"type": "BOOKMARK", "object": item}))

    async def _tell(
        self,
        response: web.StreamResponse,
        request: web.Request,
        kind: str,
        item: dict[str, Any],
        shown: dict[str, bool],
    ) -> None:
        """An object whose labels do not match any more is gone for whoever chose by them."""
        uid = item["metadata"]["uid"]
        if not _chosen(item, request):
            if not shown.pop(uid, False):
                return
            kind = "DELETED"
        shown[uid] = kind != "DELETED"
        await response.write(_line({"type": kind, "object": item}))

    async def _patch(self, request: web.Request, key: Key) -> dict[str, Any]:
        patch, before = json.loads(await request.text()), self.store.get(key)
        is_json_patch = request.content_type == "application/json-patch+json"
        after = json_patched(before, patch) if is_json_patch else merged(before, patch)
        if key[0] == "pods":
            _require_unchanged(before, after)
        return self.store.update(key, after)

    async def _add_containers(self, request: web.Request, key: Key) -> dict[str, Any]:
        """Ephemeral ones only come."""
        patch, before = json.loads(await request.text()), self.store.get(key)
        after = merged(before, patch)
        if after["metadata"]["uid"] != before["metadata"]["uid"]:
            raise StoreError(409, "Conflict", "Precondition failed: UID in precondition")
        was = before["spec"].get("ephemeralContainers") or []
        if after["spec"]["ephemeralContainers"][: len(was)] != was:
            raise StoreError(422, "Invalid", "existing ephemeral containers may not be changed")
        return self.store.update(key, after)

    async def _delete(self, request: web.Request, key: Key) -> dict[str, Any]:
        text = await request.text()
        options = json.loads(text) if text else {}
        item = self.store.get(key)
        wanted = options.get("preconditions", {}).get("uid")
        if wanted is not None and wanted != item["metadata"]["uid"]:
            raise StoreError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the UID in the precondition ({wanted}) does not match '
                f"the UID in record ({item['metadata']['uid']}). The object might have been deleted and then recreated",
            )
        if key[0] == "namespaces":
            for other in [one for one in self.store.objects if one[1] == key[2]]:
                self.store.delete(other)
        if key[0] != "pods":
            return self.store.delete(key)
        grace_s = options.get("gracePeriodSeconds", item["spec"].get("terminationGracePeriodSeconds", 30))
        if not item["spec"].get("nodeName") or item["status"]["phase"] in _ENDED:
            grace_s = 0
        if grace_s == 0:
            self.store.update(key, merged(item, {"metadata": {"deletionTimestamp": now_text()}}))
            return self.store.delete(key)
        return self.store.update(
            key,
            merged(
                item, {"metadata": {"deletionTimestamp": now_text(), "deletionGracePeriodSeconds": grace_s}}
            ),
        )

    def _evict(self, key: Key) -> web.Response:
        item = self.store.get(key)
        for budget in self.store.all("poddisruptionbudgets", key[1]):
            labels = budget["spec"]["selector"]["matchLabels"]
            if labels.items() <= item["metadata"]["labels"].items():
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                return _status(429, "TooManyRequests", message)
        self.store.update(
            key,
            merged(item, {"metadata": {"deletionTimestamp": now_text(), "deletionGracePeriodSeconds": 1}}),
        )
        return _status(201, "", "")


def _require_unchanged(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Of a Pod's spec only these may change, and gates only go."""
    was, now = copy.deepcopy(before["spec"]), copy.deepcopy(after["spec"])
    gates = [one["name"] for one in now.get("schedulingGates") or ()]
    if not set(gates) <= {one["name"] for one in was.get("schedulingGates") or ()}:
        raise StoreError(422, "Invalid", "spec.schedulingGates: Forbidden: only deletion is allowed")
    for spec in (was, now):
        for name in _MUTABLE:
            spec.pop(name, None)
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            container.pop("image", None)
    if was != now:
        raise StoreError(422, "Invalid", "spec: Forbidden: pod updates may not change fields other than …")


def _chosen(item: dict[str, Any], request: web.Request) -> bool:
    labels = item["metadata"].get("labels") or {}
    return matches_labels(labels, request.query.get("labelSelector", "")) and matches_fields(
        item, request.query.get("fieldSelector", "")
    )


def _condition(kind: str, status: str, reason: str | None = None) -> dict[str, Any]:
    body = {"type": kind, "status": status, "lastTransitionTime": now_text()}
    return body | ({"reason": reason} if reason else {})


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _status_body(status: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure" if status >= 400 else "Success",
        "message": message,
        "reason": reason,
        "code": status,
    }


def _status(status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(_status_body(status, reason, message), status=status, headers=headers)
