from fastapi import APIRouter

from moorage.identity.authentication import TheUser
from moorage.identity.sessions import repository
from moorage.identity.sessions.schemas import Session, SessionList
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession

router = APIRouter(tags=["sign-in"])


@router.get("/me/sessions", summary="List your sessions")
async def list_sessions(user: TheUser, session: TheSession) -> SessionList:
    """Lists where you are signed in, most recently used first."""
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


@router.delete("/me/sessions", summary="Sign out everywhere else", status_code=204)
async def end_other_sessions(user: TheUser, session: TheSession) -> None:
    """Ends all your sessions except the one that sends the request."""
    await repository.end_sessions(session, user.user_id, but=user.session_id)


@router.delete("/me/sessions/{session_id}", summary="End one of your sessions", status_code=204)
async def end_session(session_id: str, user: TheUser, session: TheSession) -> None:
    """Signs one browser or command line out at once."""
    if not await repository.end_session_of(session, session_id, user.user_id):
        raise NotFoundError("There is no such session.")
