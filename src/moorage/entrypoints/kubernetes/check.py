"""Asks a cluster what `findings.py` judges, and Moorage's own database what it found out there."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import asyncpg
from sqlalchemy.exc import DBAPIError

from moorage.catalog.repository import list_nodes
from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiError, ApiServer
from moorage.engines.kubernetes.objects import controller_role
from moorage.engines.kubernetes.reflector import list_all
from moorage.entrypoints.engine import CLUSTER
from moorage.entrypoints.kubernetes.findings import Facts, Finding, findings
from moorage.entrypoints.kubernetes.installation import CONTROLLER_ACCOUNT
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_DATABASE_WITHIN_S = 5.0


async def look_at_cluster(where: str, namespace: str, settings: Settings) -> list[Finding]:
    api = ApiServer(account_from(where), system_clock)
    try:
        return findings(await _facts(api, namespace, settings))
    finally:
        await api.close()


async def _facts(api: ApiServer, namespace: str, settings: Settings) -> Facts:
    account = await _who_we_are(api)
    controller = f"system:serviceaccount:{namespace}:{CONTROLLER_ACCOUNT}"
    return Facts(
        version=str((await api.call("ask for the version", "GET", "/version"))["gitVersion"]),
        nodes=(await list_all(api, "list nodes", "/api/v1/nodes", {})).items,
        policies_served=await _serves_policies(api),
        policies=await _names(api, f"{_ADMISSION}/validatingadmissionpolicies"),
        daemon_sets=await _list_of_names(api, "/apis/apps/v1/daemonsets"),
        account=account,
        controller=controller,
        denied=await _denied(api, controller, ours=account == controller),
        secrets=await _secrets(api, namespace),
        has_dns=await _is_there(api, "/api/v1/namespaces/kube-system/services/kube-dns"),
        closed_nodes=await _closed_nodes(settings),
        waived=settings.isolation == "waived",
    )


async def _who_we_are(api: ApiServer) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    said = await api.call(
        "ask who we are", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body
    )
    return str(said["status"]["userInfo"]["username"])


async def _serves_policies(api: ApiServer) -> bool:
    try:
        said = await api.call("ask what there is", "GET", _ADMISSION)
    except ApiError as exc:
        if exc.status == 404:
            return False
        raise
    return any(one["name"] == "validatingadmissionpolicies" for one in said.get("resources", ()))


async def _names(api: ApiServer, path: str) -> frozenset[str] | None:
    names = await _list_of_names(api, path)
    return frozenset(names) if names is not None else None


async def _list_of_names(api: ApiServer, path: str) -> list[str] | None:
    try:
        return [one["metadata"]["name"] for one in (await list_all(api, f"list {path}", path, {})).items]
    except ApiError as exc:
        if exc.status in (403, 404):
            return None
        raise


async def _secrets(api: ApiServer, namespace: str) -> frozenset[str] | None:
    """Which of ours exist. Their contents are asked for and not looked at: Kubernetes has no other question."""
    there = set()
    for name in ("moorage-database", "moorage-keys"):
        found = await _is_there(api, f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if found is None:
            return None
        if found:
            there.add(name)
    return frozenset(there)


async def _is_there(api: ApiServer, path: str) -> bool | None:
    """None where we may not know."""
    try:
        await api.call(f"look for {path}", "GET", path)
    except ApiError as exc:
        if exc.status == 404:
            return False
        if exc.status == 403:
            return None
        raise
    return True


async def _denied(api: ApiServer, controller: str, *, ours: bool) -> list[str] | None:
    """Of the rights over the whole cluster: those in tenants' namespaces the controller gives itself."""
    kind = "SelfSubjectAccessReview" if ours else "SubjectAccessReview"
    denied = []
    for attributes in _asked_for(controller_role()["rules"]):
        spec = {"resourceAttributes": attributes, **({} if ours else {"user": controller})}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
        try:
            said = await api.call("ask for rights", "POST", path, body=body)
        except ApiError as exc:
            if exc.status == 403:
                return None
            raise
        if not said["status"].get("allowed"):
            denied.append(f"{attributes['verb']} {attributes['resource']}")
    return denied


def _asked_for(rules: list[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for rule in rules:
        for resource in rule["resources"]:
            name, _, subresource = resource.partition("/")
            for verb in rule["verbs"]:
                attributes = {"group": rule["apiGroups"][0], "resource": name, "verb": verb}
                if subresource:
                    attributes["subresource"] = subresource
                for one in rule.get("resourceNames", ()):
                    attributes["name"] = one
                yield attributes


async def _closed_nodes(settings: Settings) -> dict[str, str] | None:
    """As the controller's canaries found out. None where there is no database to ask, or nobody looked."""
    if settings.database_dsn is None:
        return None
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with asyncio.timeout(_DATABASE_WITHIN_S), database.reading() as session:
            nodes = [node for node in await list_nodes(session) if node.engine == CLUSTER]
    except (OSError, TimeoutError, DBAPIError, asyncpg.PostgresError):
        return None
    finally:
        await database.close()
    return {node.name: node.closed_because for node in nodes if node.closed_because} if nodes else None
