import os
from pathlib import Path

import pytest

from moorage.kit.errors import SettingsError
from moorage.kit.settings import Settings, load_settings, masked


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("MOORAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MOORAGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_defaults_listen_on_loopback_only() -> None:
    settings = load_settings()
    assert settings.api_base_url == "http://127.0.0.1:8080"
    assert settings.gateway_base_url == "http://127.0.0.1:8081"


def test_a_variable_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "moorage.toml").write_text('support_contact = "file"\nlog_retention_days = 3\n')
    monkeypatch.setenv("MOORAGE_SUPPORT_CONTACT", "variable")
    settings = load_settings()
    assert (settings.support_contact, settings.log_retention_days) == ("variable", 3)


def test_a_file_is_read_for_whom_it_was_read_for_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "moorage.toml").write_text('support_contact = "file"\n')
    assert load_settings().support_contact == "file"
    assert Settings().support_contact != "file"


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("api_listen = ", "moorage.toml"),
        ('api_listen = "nonsense"', "api_listen"),
        ("unknown_thing = 1", "unknown_thing"),
        ('replica_ports = "9-1"', "replica_ports"),
        ('api_listen = "127.0.0.1:9"\ngateway_listen = "127.0.0.1:9"', "different"),
        ('gateway_slots = "many"', "gateway_slots"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, toml: str, named: str) -> None:
    (tmp_path / "moorage.toml").write_text(toml)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert named in refused.value.message
    assert "\n" not in refused.value.message


def test_a_config_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_CONFIG", "/nowhere/moorage.toml")
    with pytest.raises(SettingsError, match=r"/nowhere/moorage\.toml"):
        load_settings()


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_DATABASE_DSN", "postgresql://u:hunter2hunter2@h/d")
    assert "hunter2" not in str(masked(load_settings()))
