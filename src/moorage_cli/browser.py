"""The browser of whoever types, where there is one."""

import os
import sys
import webbrowser


def show(address: str) -> bool:
    """Whether one opened. Without a screen there are only browsers for terminals, which would take this one."""
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return (screen or sys.platform == "darwin") and webbrowser.open(address)
