"""The page where a signed-in person approves a waiting command line: two buttons, no script."""

from html import escape
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from moorage.identity.actor import UserActor
from moorage.identity.authentication import person_of_cookie
from moorage.identity.cookies import session_cookie
from moorage.identity.device import service
from moorage.identity.tokens import csrf_token
from moorage.kit.crypto import equal
from moorage.kit.errors import MoorageError
from moorage.kit.pages import page
from moorage.kit.web import STRANGERS_BODY_BYTES, TheSession, TheSettings, takes_body

router = APIRouter(include_in_schema=False)


@router.get("/device")
async def ask(request: Request, session: TheSession, settings: TheSettings, code: str = "") -> HTMLResponse:
    person = await person_of_cookie(request, session, settings)
    if person is None:
        return _sign_in_first(code)
    try:
        waiting = await service.find(session, code)
    except MoorageError as error:
        return page("Nothing waits here", f"<p>{escape(error.message)}</p>", 404)
    csrf = csrf_token(session_cookie(request, settings))
    return page(
        "Sign in a command line",
        f"<p><b>{escape(waiting.client_name)}</b> asks to act as {escape(person.email)}. Approve only if you started "
        f"it yourself a moment ago and it shows <code>{waiting.user_code}</code>.</p>"
        f'<form method="post" action="/device?code={quote(waiting.user_code)}">'
        f'<input type="hidden" name="csrf" value="{csrf}">'
        '<button name="approve" value="yes">Approve</button> <button name="approve" value="no">Refuse</button></form>',
    )


@router.post("/device")
@takes_body(STRANGERS_BODY_BYTES)
async def decide(
    request: Request, session: TheSession, settings: TheSettings, code: str = ""
) -> HTMLResponse:
    form = parse_qs((await request.body()).decode("ascii", "replace"))
    person: UserActor | None = await person_of_cookie(request, session, settings)
    if person is None:
        return _sign_in_first(code)
    sent = form.get("csrf", [""])[0]
    if not equal(sent.encode(), csrf_token(session_cookie(request, settings)).encode()):
        return page("This request did not come from this page", "<p>Open the link again.</p>", 403)
    approved = form.get("approve") == ["yes"]
    try:
        await service.decide(session, code, person.user_id, approved)
    except MoorageError as error:
        return page("Nothing waits here", f"<p>{escape(error.message)}</p>", 404)
    if approved:
        return page("Approved", "<p>The command line is signed in. You can close this page.</p>")
    return page("Refused", "<p>The command line is not signed in.</p>")


def _sign_in_first(code: str) -> HTMLResponse:
    back = quote(f"/device?code={quote(code)}", safe="")
    text = f'<p>Only somebody who is signed in can approve a command line.</p><p><a href="/login?next={back}">Sign in</a></p>'
    return page("Sign in first", text, 401)
