"""An HTTP server that answers as Moorage documents it, for tests of the command line.

The CLI is a client of a public API, so the API is an external system to it. This one keeps just enough state for
the stories that the tests tell: what a container goes through is a script, one step for each time it is asked for.

Every answer, and every body that the CLI sends, is held to the API's own description: what differs is in `drift`, and fails
the test. What a story does not say of an answer is as the description has it.

What it answers with lies beside the routes that answer so: `containers` and `container_routes`, and so on.
"""

from cli_server.accounts import project
from cli_server.containers import DIAGNOSIS, log_line
from cli_server.installation import TYPE_PROPOSAL
from cli_server.server import serving
from cli_server.state import MANAGE_KEY, OPERATOR_KEY, SESSION_TOKEN, FakeMoorage, Moor
from cli_server.times import CREATED_AT

__all__ = [
    "CREATED_AT",
    "DIAGNOSIS",
    "MANAGE_KEY",
    "OPERATOR_KEY",
    "SESSION_TOKEN",
    "TYPE_PROPOSAL",
    "FakeMoorage",
    "Moor",
    "log_line",
    "project",
    "serving",
]
