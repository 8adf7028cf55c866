import socket
from pathlib import Path

import pytest

from moorage.entrypoints.foundation import _check_ports
from moorage.entrypoints.gateway_role import create_dataplane
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.settings import Settings, load_settings
from tests.ports import free_port

BOTH = {"public_url": "https://cloud.example.com", "gateway_url": "https://inference.example.com:8443"}


def settings(home: Path = Path("/nowhere"), **more: object) -> Settings:
    return load_settings(home=home, acme_email="ann@example.com", **more)


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (BOTH, ("cloud.example.com", "inference.example.com")),
        ({"public_url": "https://cloud.example.com"}, ("cloud.example.com",)),
        ({**BOTH, "gateway_url": "https://cloud.example.com:8443"}, ("cloud.example.com",)),
        ({**BOTH, "gateway_certificate": "/etc/apps.pem"}, ("cloud.example.com",)),
        ({**BOTH, "gateway_url": "http://inference.example.com"}, ("cloud.example.com",)),
    ],
)
def test_names_of_https_addresses_whose_certificate_is_not_given(
    more: dict[str, str], names: tuple[str, ...]
) -> None:
    assert settings(**more).certified_names == names


def test_what_is_given_is_served_and_the_rest_is_had() -> None:
    found = settings(**BOTH, gateway_certificate="/etc/apps.pem")
    assert found.served_gateway_certificate == Path("/etc/apps.pem")
    assert found.served_api_certificate == Path("/nowhere/acme/certificate.pem")
    assert found.local_api_url == "https://127.0.0.1:8080"
    plain = load_settings(home=Path("/nowhere"), **BOTH)
    assert (plain.served_api_certificate, plain.certified_names) == (None, ())


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({}, "set public_url or gateway_url"),
        ({"public_url": "http://cloud.example.com"}, "set public_url or gateway_url"),
        ({"public_url": "https://192.0.2.7"}, "192.0.2.7 is not a name"),
        ({"public_url": "https://localhost"}, "localhost is not a name"),
        ({"public_url": f"https://{'a.' * 130}example.com"}, "is not a name that an authority certifies"),
        ({**BOTH, "apps_domain": "apps.example.com"}, "name one in gateway_certificate"),
        ({**BOTH, "keys": "mounted", "database_dsn": "postgresql://u:p@h/d"}, "works on one machine only"),
        ({**BOTH, "api_listen": "0.0.0.0:80"}, "an address of its own"),
        ({**BOTH, "acme_listen": "80"}, "host:port"),
        ({**BOTH, "acme_directory": "http://acme.example.com/dir"}, "acme_directory"),
    ],
)
def test_what_cannot_be_certified_is_said(more: dict[str, str], because: str) -> None:
    with pytest.raises(SettingsError, match=because.replace(".", r"\.")):
        settings(**more)


@pytest.mark.parametrize(
    "more",
    [
        {**BOTH, "gateway_url": "https://[2001:db8::7]:8443", "gateway_certificate": "/etc/own.pem"},
        {"public_url": f"https://{'.'.join('abcdefghijklm')}.example.com"},
    ],
)
def test_every_name_that_the_settings_take_can_be_led_to(short_folder: Path, more: dict[str, str]) -> None:
    assert create_dataplane(settings(short_folder, **more)).config.acme is not None


def test_somebody_else_at_port_80_is_said_before_anything_starts(short_folder: Path) -> None:
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("api_listen", "gateway_listen")}
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = f"127.0.0.1:{somebody.getsockname()[1]}"
        found = settings(short_folder, **BOTH, **addresses, acme_listen=taken)
        found.run_dir.mkdir()
        with pytest.raises(SetupError, match="MOORAGE_ACME_LISTEN"):
            _check_ports(found)
    _check_ports(found)
