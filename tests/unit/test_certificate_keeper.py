"""When a certificate is asked for, what is taken of what an authority gives, and what is said of it. Without an authority: with a real
one is in tests/gateway/test_acme.py."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from acme.crypto_util import get_identifiers_from_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from moorage.entrypoints.health_parts import Certificate, State, certificate_part
from moorage.entrypoints.served_certificates import served_certificates
from moorage.gateway.acme.account import new_private_key, private_key_of
from moorage.gateway.acme.certificate import (
    BROKEN_OFF,
    TRY_WITHIN,
    Asked,
    Held,
    Tried,
    first_certificate,
    given_by,
    has_its_key,
    may_try,
    read,
    request_for,
    trouble_with,
    wanted,
)
from moorage.gateway.acme.keeper import CertificateKeeper, begin_with_some_certificate, last_try
from moorage.kit.clock import system_clock
from moorage.kit.settings import Settings
from tests.ports import free_port

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAME = "cloud.example.com"
ASKED = Asked((NAME,), "https://acme.example.com/directory")


def settings_in(home: Path, **more: object) -> Settings:
    """Of an authority that is away."""
    away = f"https://127.0.0.1:{free_port()}/directory"
    values = {"public_url": f"https://{NAME}", "acme_email": "ann@example.com", "acme_directory": away}
    return Settings(home=home, **{**values, **more})  # type: ignore[arg-type]


def given(*names: str, key_pem: str | None = None, begins_at: datetime = NOW) -> str:
    """As an authority gives it, and its key."""
    key_pem = key_pem or new_private_key()
    key = private_key_of(key_pem)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins_at)
        .not_valid_after(begins_at + timedelta(days=90))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode() + key_pem


def note(settings: Settings, trouble: str | None, at: datetime = NOW, *names: str) -> None:
    directory = settings.acme_directory
    told = {"at": at.isoformat(), "names": names or [NAME], "directory": directory, "trouble": trouble}
    (settings.acme_dir / "last-try.json").write_text(json.dumps(told))


async def test_what_cannot_be_written_ends_nothing_else_of_the_gateway(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert not settings.acme_dir.exists(), "or a full disk"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await CertificateKeeper(settings, system_clock).run()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"at": "?", "names": [], "directory": "", "trouble": null}',
        '{"at": 7, "names": 7, "directory": "", "trouble": 7}',
    ],
)
async def test_a_record_that_nobody_can_read_is_none(tmp_path: Path, text: str) -> None:
    settings = settings_in(tmp_path)
    begin_with_some_certificate(settings, system_clock.now())
    (settings.acme_dir / "last-try.json").write_text(text)
    (told,) = served_certificates(settings, system_clock.now())
    assert told.trouble is None
    await CertificateKeeper(settings, system_clock).look()
    assert last_try(settings.acme_dir) is not None


def test_what_an_authority_gives_is_looked_at_first() -> None:
    good = given(NAME, "more.example.com")
    assert trouble_with(good.encode(), [NAME]) is None
    other = given(NAME).partition("-----BEGIN PRIVATE KEY")[0] + new_private_key()
    for pem, words in (
        ("no certificate", "no certificate"),
        (other, "somebody else's key"),
        (given(NAME).partition("-----BEGIN PRIVATE KEY")[0], "somebody else's key"),
        (given("evil.example.com"), f"without {NAME}"),
    ):
        assert words in str(trouble_with(pem.encode(), [NAME]))


@pytest.mark.parametrize(
    "text", ["", "half", given(NAME)[:300], given(NAME).partition("-----BEGIN PRIVATE")[0]]
)
def test_half_a_certificate_is_replaced_before_haproxy_stumbles_over_it(tmp_path: Path, text: str) -> None:
    settings = settings_in(tmp_path)
    settings.acme_dir.mkdir()
    settings.acme_certificate.write_text(text)
    begin_with_some_certificate(settings, NOW)
    assert has_its_key(settings.acme_certificate.read_bytes())
    settings.acme_certificate.write_text(good := given(NAME))
    begin_with_some_certificate(settings, NOW)
    assert settings.acme_certificate.read_text() == good


def test_a_clock_that_is_wrong_does_not_ask_for_one_every_minute() -> None:
    late = NOW + timedelta(days=80)
    held = Held(frozenset({NAME}), NOW, NOW + timedelta(days=90), is_first=False)
    assert wanted(held, ASKED, late)
    assert not may_try(Tried(late, ASKED, None), ASKED, late + timedelta(minutes=1))
    assert may_try(Tried(late, ASKED, None), ASKED, late + timedelta(minutes=16))
    assert may_try(Tried(late, ASKED, None), ASKED, NOW), "set right again"


def test_one_of_another_authority_is_replaced_at_once() -> None:
    """Whoever tries out first, as authorities ask for, has a certificate that nobody trusts."""
    before = read(given_by("https://trying.example.com/directory", given(NAME)).encode())
    assert before is not None
    assert wanted(before, ASKED, NOW)
    assert may_try(Tried(NOW, Asked((NAME,), "https://trying.example.com/directory"), None), ASKED, NOW)
    now = read(given_by(ASKED.directory, given(NAME)).encode())
    assert not wanted(now, ASKED, NOW)
    assert not wanted(read(given(NAME).encode()), ASKED, NOW), "one of which nobody knows"


def test_a_long_name_is_asked_for_as_it_is() -> None:
    names = [f"{'a' * 60}.example.com", NAME]
    request = x509.load_pem_x509_csr(request_for(names, new_private_key()))
    assert get_identifiers_from_x509(request.subject, request.extensions)[0] == names


def test_what_became_of_a_try_counts_as_long_as_it_matters(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    begin_with_some_certificate(settings, NOW)

    def trouble(now: datetime = NOW + timedelta(minutes=1)) -> str | None:
        (told,) = served_certificates(settings, now)
        return told.trouble

    note(settings, "no")
    assert trouble() == "no"
    note(settings, "no", NOW, "other.example.com")
    assert trouble() is None, "of names that are not wanted any more"
    note(settings, BROKEN_OFF)
    assert trouble() is None, "it is under way"
    assert trouble(NOW + TRY_WITHIN) == BROKEN_OFF
    settings.acme_certificate.write_text(given(NAME))
    assert trouble(NOW + TRY_WITHIN) is None, "killed when all but the note was done"


def test_what_lasts_a_day_or_a_month_ends_soon_later() -> None:
    for lasts, left, state in (
        (timedelta(days=90), timedelta(days=20), State.WARNING),
        (timedelta(days=45), timedelta(days=15), State.OK),
        (timedelta(days=45), timedelta(days=10), State.WARNING),
        (timedelta(hours=24), timedelta(hours=8), State.OK),
        (timedelta(hours=24), timedelta(hours=5), State.WARNING),
    ):
        one = Certificate("acme_email", "/c.pem", NOW + left, not_before=NOW + left - lasts)
        assert certificate_part(one, NOW).state is state, (lasts, left)


def test_the_first_one_is_whole() -> None:
    assert has_its_key(first_certificate([NAME], NOW).encode())
