"""What the gateway itself answers at an endpoint, from `gateway/answers.py`."""

from moorage.entrypoints.handbook.words import code, table
from moorage.gateway.answers import endpoint_answers


def page() -> str:
    rows = [(code(one.code), str(one.status), one.message) for one in endpoint_answers()]
    return f"""# Endpoint errors

What an endpoint answers when the gateway, not your container, has something to say. The body is
`{{"error": {{"message", "type", "code", "request_id"}}}}`, which OpenAI clients read. `moor explain REQUEST_ID` tells what happened to
a request. Answers of your container pass unchanged.

{table(("code", "status", "message"), rows)}
Errors of the management API (`/api/v1`) are `application/problem+json` with a stable `code`, a sentence in `detail`, and a
`request_id`. The <a href="/docs/api">API reference</a> lists them by route.
"""
