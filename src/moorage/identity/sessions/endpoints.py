from fastapi import APIRouter

from moorage.identity.authentication import TheUser
from moorage.identity.sessions import repository
from moorage.identity.sessions.schemas import Session, SessionList
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession

router = APIRouter(tags=["sign-in"])


@router.get("/me/sessions")
async def list_sessions(user: TheUser, session: TheSession) -> SessionList:
    """Where you are signed in, the last used first."""
    rows = await repository.list_live_sessions(session, user.user_id)
    shown = [
        Session(
            id=row.id,
            client=row.client,
            current=row.id == user.session_id,
            created_at=row.created_at,
            last_used_at=row.last_used_at,
            expires_at=row.expires_at,
        )
        for row in rows
    ]
    return SessionList(items=shown)


@router.delete("/me/sessions", status_code=204)
async def end_other_sessions(user: TheUser, session: TheSession) -> None:
    """Signs you out everywhere but here."""
    await repository.end_sessions(session, user.user_id, but=user.session_id)


@router.delete("/me/sessions/{session_id}", status_code=204)
async def end_session(session_id: str, user: TheUser, session: TheSession) -> None:
    if not await repository.end_session_of(session, session_id, user.user_id):
        raise NotFoundError("There is no such session.")
