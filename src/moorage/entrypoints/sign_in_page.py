"""The page behind the operator's one-time link: one button, no script.

The link itself changes nothing when it is opened, because whatever previews links opens them too.
"""

from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from moorage.identity.sign_in.endpoints import set_session_cookie
from moorage.identity.sign_in.service import verify_link
from moorage.kit.errors import NotAuthenticatedError
from moorage.kit.web import TheSession, TheSettings

router = APIRouter(include_in_schema=False)

_STYLE = (
    "body{font:14px/20px system-ui,sans-serif;background:#F6F7F9;color:#131820;display:grid;place-items:center;"
    "min-height:100vh;margin:0}main{background:#fff;border:1px solid #E2E6EB;border-radius:8px;padding:32px;"
    "max-width:420px}h1{font-size:20px;line-height:28px;margin:0 0 8px}button{font:inherit;height:40px;padding:0 16px;"
    "border:0;border-radius:6px;background:#1B5BD6;color:#fff;cursor:pointer}code{background:#F1F3F6;padding:2px 4px}"
)


@router.get("/sign-in")
async def ask(token: str = "") -> HTMLResponse:
    return _page(
        "Sign in to Moorage",
        f'<p>This link works once.</p><form method="post"><input type="hidden" name="token" value="{escape(token)}">'
        "<button>Sign in as operator</button></form>",
    )


@router.post("/sign-in")
async def sign_in(request: Request, session: TheSession, settings: TheSettings) -> HTMLResponse:
    form = parse_qs((await request.body()).decode("ascii", "replace"))
    token = form.get("token", [""])[0]
    try:
        user, session_token = await verify_link(session, token)
    except NotAuthenticatedError as error:
        return _page("This link no longer works", f"<p>{escape(error.message)}</p>", status=401)
    page = _page(
        "You are signed in",
        f'<p>{escape(user.email)}</p><p><a href="/">Open the console</a></p>'
        '<p>The API is at <code>/api/v1</code>, its description at <a href="/openapi.json">/openapi.json</a>.</p>',
    )
    set_session_cookie(page, settings, session_token)
    return page


def _page(title: str, content: str, status: int = 200) -> HTMLResponse:
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><main><h1>{title}</h1>{content}</main></html>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(html, status_code=status, headers=headers)
