"""The page behind the operator's one-time link: one button, no script.

The link itself changes nothing when it is opened, because whatever previews links opens them too.
"""

from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from moorage.identity.sign_in.endpoints import TheCaller, client_of, keep_signed_in
from moorage.identity.sign_in.service import verify_link
from moorage.kit.errors import NotAuthenticatedError
from moorage.kit.pages import page
from moorage.kit.web import STRANGERS_BODY_BYTES, TheKeyring, TheSession, TheSettings, takes_body

router = APIRouter(include_in_schema=False)


@router.get("/sign-in")
async def ask(token: str = "") -> HTMLResponse:
    return page(
        "Sign in to Moorage",
        f'<p>This link works once.</p><form method="post" action="/sign-in"><input type="hidden" name="token" value="{escape(token)}">'
        "<button>Sign in as operator</button></form>",
    )


@router.post("/sign-in")
@takes_body(STRANGERS_BODY_BYTES)
async def sign_in(
    request: Request, session: TheSession, keyring: TheKeyring, settings: TheSettings, caller: TheCaller
) -> HTMLResponse:
    form = parse_qs((await request.body()).decode("ascii", "replace"))
    token = form.get("token", [""])[0]
    try:
        user, session_token = await verify_link(session, token, client_of(request), caller.source)
    except NotAuthenticatedError as error:
        return page("This link no longer works", f"<p>{escape(error.message)}</p>", status=401)
    answer = page(
        "You are signed in",
        f'<p>{escape(user.email)}</p><p><a href="/">Open the console</a></p>'
        '<p>The API is at <code>/api/v1</code>, its description at <a href="/openapi.json">/openapi.json</a>.</p>',
    )
    keep_signed_in(answer, settings, keyring, caller, user, session_token)
    return answer
