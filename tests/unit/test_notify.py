import socket
from pathlib import Path

import pytest

from moorage.kit.notify import tell_service_manager


def test_the_service_manager_is_told(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (str(short_folder / "notify"), f"\0{short_folder}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(10)
            manager.bind(address)
            monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
            tell_service_manager("READY=1")
            assert manager.recv(100) == b"READY=1"


def test_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_service_manager("READY=1")
