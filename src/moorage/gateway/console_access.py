"""The one browser page that may call endpoints from another origin: the console's playground. Pure."""

_ABOUT_THE_HOST = ("set-cookie", "clear-site-data", "strict-transport-security", "alt-svc")
"""What a browser would keep of a container's answer for the whole host, and the console may be on the same."""


def console_access(origin: str | None) -> str:
    """CORS for the console alone. A preflight carries no key, so it is answered before keys are asked for; it says
    nothing about any container. The allowed origin is the configured text, never what a client sent. These are the last
    rules for an answer: those that are not for the console end before them."""
    if origin is None:
        return ""
    not_kept = "\n".join(f"    http-after-response del-header {name}" for name in _ABOUT_THE_HOST)
    return f"""\
    http-request set-var(txn.from_console) bool(true) if {{ req.fhdr(origin) -m str {origin} }}
    acl preflight req.hdr(access-control-request-method) -m found
    http-request return status 204 hdr Access-Control-Allow-Methods "GET, POST" hdr Access-Control-Allow-Headers "authorization, content-type" hdr Access-Control-Max-Age 600 if {{ var(txn.from_console) -m bool }} {{ method OPTIONS }} preflight
    http-after-response allow unless {{ var(txn.from_console) -m bool }}
    http-after-response set-header Access-Control-Allow-Origin {origin}
    http-after-response set-header Access-Control-Expose-Headers X-Request-ID
    http-after-response add-header Vary Origin
{not_kept}"""
