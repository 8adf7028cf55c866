"""The few pages that the API serves by itself: no script, nothing from anywhere else."""

from html import escape

from fastapi.responses import HTMLResponse

_STYLE = (
    "body{font:14px/20px system-ui,sans-serif;background:#F6F7F9;color:#131820;display:grid;place-items:center;"
    "min-height:100vh;margin:0}main{background:#fff;border:1px solid #E2E6EB;border-radius:8px;padding:32px;"
    "max-width:420px}h1{font-size:20px;line-height:28px;margin:0 0 8px}button{font:inherit;height:40px;padding:0 16px;"
    "border:0;border-radius:6px;background:#1B5BD6;color:#fff;cursor:pointer}code{background:#F1F3F6;padding:2px 4px}"
)


def page(title: str, content: str, status: int = 200) -> HTMLResponse:
    """`content` is HTML; whoever calls this escapes what comes from elsewhere."""
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<main><h1>{escape(title)}</h1>{content}</main></html>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    headers = {
        "Content-Security-Policy": policy,
        # Not `no-referrer`: with it a browser sends the page's own form with `Origin: null`, as if it came from elsewhere.
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(html, status_code=status, headers=headers)
