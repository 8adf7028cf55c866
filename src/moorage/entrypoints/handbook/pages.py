"""Which pages there are."""

from collections.abc import Callable

from moorage.entrypoints.handbook import (
    commands_page,
    errors_page,
    events_page,
    limits_page,
    metrics_page,
    permissions_page,
    settings_page,
    states_page,
)

PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page.page,
    "commands": commands_page.page,
    "states": states_page.states,
    "reasons": states_page.reasons,
    "permissions": permissions_page.page,
    "limits": limits_page.page,
    "events": events_page.page,
    "metrics": metrics_page.page,
    "errors": errors_page.page,
}
"""By their address below `/docs/reference`."""
