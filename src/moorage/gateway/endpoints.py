from fastapi import APIRouter

from moorage.containers.repository import SILENT_AFTER, list_gateways
from moorage.gateway.repository import forget_gateway
from moorage.identity.authentication import TheOperator
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.kit.ids import GatewayId
from moorage.kit.web import TheSession
from moorage.organizations.audit.repository import record_audit

router = APIRouter(tags=["operator"])


@router.delete("/operator/gateways/{gateway_id}", summary="Forget a gateway", status_code=204)
async def delete_gateway(gateway_id: str, operator: TheOperator, session: TheSession) -> None:
    """Forgets a gateway that is gone for good, so that drains no longer wait for it. Do this only when its HAProxy no
    longer serves anybody."""
    known = {one.id: one for one in await list_gateways(session)}
    if gateway_id not in known:
        raise NotFoundError("There is no such gateway.")
    if known[gateway_id].alive:
        silent_s = round(SILENT_AFTER.total_seconds())
        raise ConflictError(
            f"The gateway {gateway_id} is alive. Stop it first. You can forget it once it has been silent for {silent_s} s.",
            code="gateway_alive",
        )
    await forget_gateway(session, GatewayId(gateway_id))
    record_audit(session, None, actor=operator.id, action="gateway.forget", target=gateway_id)
