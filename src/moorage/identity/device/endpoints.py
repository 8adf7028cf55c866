from fastapi import APIRouter, Response

from moorage.identity.authentication import TheUser
from moorage.identity.device import repository, service
from moorage.identity.device.schemas import (
    DeviceAnswer,
    DeviceDecision,
    DeviceStart,
    DeviceStarted,
    DeviceToken,
    DeviceWaiting,
)
from moorage.identity.sign_in.endpoints import signed_in
from moorage.kit.web import STRANGERS_BODY_BYTES, TheSession, TheSettings, TheSource, takes_body

router = APIRouter(tags=["sign-in"])
POLL_EVERY_S = 2


@router.post("/auth/device", status_code=201)
@takes_body(STRANGERS_BODY_BYTES)
async def start(
    session: TheSession, settings: TheSettings, source: TheSource, body: DeviceStart | None = None
) -> DeviceStarted:
    """For a command line: a code to show to its user, who approves it in a browser."""
    device_code, user_code = await service.start(
        session, settings, source, (body or DeviceStart()).client_name
    )
    return DeviceStarted(
        device_code=device_code,
        user_code=user_code,
        verification_url=f"{settings.api_base_url}/device?code={user_code}",
        interval_s=POLL_EVERY_S,
        expires_in_s=int(repository.LIFETIME.total_seconds()),
    )


@router.post("/auth/device/token")
@takes_body(STRANGERS_BODY_BYTES)
async def collect(
    body: DeviceToken, session: TheSession, source: TheSource, response: Response
) -> DeviceAnswer:
    """202 while nobody has decided; 200 with a session, once, when somebody approved."""
    found = await service.collect(session, body.device_code, source)
    if found is None:
        response.status_code = 202
        return DeviceAnswer(status="pending")
    return DeviceAnswer(status="approved", signed_in=signed_in(*found))


@router.get("/auth/device/{user_code}")
async def show(user_code: str, _: TheUser, session: TheSession) -> DeviceWaiting:
    """What waits to be approved under this code."""
    row = await service.find(session, user_code)
    return DeviceWaiting(user_code=row.user_code, client_name=row.client_name)


@router.post("/auth/device/{user_code}", status_code=204)
@takes_body(STRANGERS_BODY_BYTES)
async def decide(user_code: str, body: DeviceDecision, user: TheUser, session: TheSession) -> None:
    """Approve, and the waiting command line is signed in as you; or refuse."""
    await service.decide(session, user_code, user.user_id, body.approve)
