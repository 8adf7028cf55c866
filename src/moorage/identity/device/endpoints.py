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


@router.post("/auth/device", summary="Begin sign-in on a command line", status_code=201)
@takes_body(STRANGERS_BODY_BYTES)
async def start_device(
    session: TheSession, settings: TheSettings, source: TheSource, body: DeviceStart | None = None
) -> DeviceStarted:
    """Returns a code for the command line to show and a secret for it to keep. The user approves the code in a
    browser while the command line polls `/auth/device/token`."""
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


@router.post("/auth/device/token", summary="Collect a command line's session")
@takes_body(STRANGERS_BODY_BYTES)
async def collect_device(
    body: DeviceToken, session: TheSession, source: TheSource, response: Response
) -> DeviceAnswer:
    """Answers 202 until somebody decides. After an approval it answers 200 with a session, exactly once."""
    found = await service.collect(session, body.device_code, source)
    if found is None:
        response.status_code = 202
        return DeviceAnswer(status="pending")
    return DeviceAnswer(status="approved", signed_in=signed_in(*found))


@router.get("/auth/device/{user_code}", summary="Show a waiting command line")
async def show_device(user_code: str, _: TheUser, session: TheSession) -> DeviceWaiting:
    """Returns which command line waits for approval under this code. Check it before you approve."""
    row = await service.find(session, user_code)
    return DeviceWaiting(user_code=row.user_code, client_name=row.client_name)


@router.post("/auth/device/{user_code}", summary="Approve or refuse a command line", status_code=204)
@takes_body(STRANGERS_BODY_BYTES)
async def decide_device(user_code: str, body: DeviceDecision, user: TheUser, session: TheSession) -> None:
    """Approval signs the waiting command line in as you. Refusal ends its wait."""
    await service.decide(session, user_code, user.user_id, body.approve)
