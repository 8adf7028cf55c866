"""Gateways that ran in Pods which are gone: forgotten, so that nobody waits for their word.

A gateway's id in a Pod follows from the Pod's uid (`pod_gateway_id`), so the rows that belong to no Pod are known without a
column. Every controller looks: to forget one twice does no harm. The list of Pods is complete or an error.
"""

import asyncio
import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from moorage.containers.repository import list_gateways
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.reflector import list_all
from moorage.gateway.repository import forget_gateway
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId
from moorage.kit.lasting import look_for_good

log = structlog.get_logger()

GATEWAYS = "app.kubernetes.io/name=moorage,app.kubernetes.io/component=gateway"
_LOOK_EVERY_S = 5.0
_MARK = "gtw_k8s"
"""No random id begins like this: their alphabet has no 8."""
_LEFT_BEHIND_AFTER_S = 30.0
"""Beyond its grace period: a Pod that should have ended and whose node says nothing."""


def pod_gateway_id(pod_uid: str) -> GatewayId:
    digest = base64.b32encode(hashlib.sha256(pod_uid.encode()).digest()).decode().lower()
    return GatewayId(f"{_MARK}{digest[:17]}")


def gone_gateways(known: Iterable[str], pods: Iterable[Mapping[str, Any]], now: datetime) -> list[GatewayId]:
    """Of those that ran in Pods. Pure."""
    living = {pod_gateway_id(pod["metadata"]["uid"]) for pod in pods if not _is_over(pod, now)}
    return sorted(GatewayId(one) for one in known if one.startswith(_MARK) and one not in living)


def _is_over(pod: Mapping[str, Any], now: datetime) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    # The moment at which its grace period ends. A kubelet that lives takes the Pod away then.
    ends_at = pod["metadata"].get("deletionTimestamp")
    return (
        ends_at is not None and (now - datetime.fromisoformat(ends_at)).total_seconds() > _LEFT_BEHIND_AFTER_S
    )


@dataclass
class GatewayPods:
    database: Database
    api: ApiServer
    namespace: str

    async def run(self) -> None:
        """For good."""
        await look_for_good("gateway pods", self.look, _LOOK_EVERY_S, asyncio.Event())

    async def look(self) -> None:
        # The rows first: whoever registers meanwhile has a Pod in the list.
        async with self.database.reading() as session:
            known = [gateway.id for gateway in await list_gateways(session)]
        if not any(one.startswith(_MARK) for one in known):
            return
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        pods = await list_all(self.api, "list gateways", path, {"labelSelector": GATEWAYS})
        for gateway_id in gone_gateways(known, pods.items, system_clock.now()):
            async with self.database.transaction() as session:
                await forget_gateway(session, gateway_id)
            log.info("gateway_forgotten", gateway=gateway_id, reason="its Pod is gone")
