from pathlib import Path

import pytest

from moorage.kit.errors import SettingsError
from moorage.kit.settings import Settings, load_settings

BOTH = {"public_url": "https://cloud.example.com", "gateway_url": "https://inference.example.com:8443"}


def settings(**more: object) -> Settings:
    return load_settings(home=Path("/nowhere"), acme_email="ann@example.com", **more)


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
