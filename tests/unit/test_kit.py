"""The kit's small pure pieces."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.clock import VirtualClock
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.email import normalized
from moorage.kit.errors import DecryptionError, InvalidInputError, SettingsError
from moorage.kit.ids import new_container_id
from moorage.kit.money import format_usd, microusd_from_usd
from moorage.kit.pagination import Position, decode_cursor, encode_cursor


def test_ids_say_what_they_are_and_do_not_repeat() -> None:
    ids = {new_container_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(one.startswith("ctr_") and len(one) == 24 for one in ids)


@pytest.mark.parametrize(
    ("usd", "microusd", "shown"),
    [
        ("1.10", 1_100_000, "$1.10"),
        ("0.005", 5_000, "$0.005"),
        ("20", 20_000_000, "$20.00"),
        ("-3", -3_000_000, "-$3.00"),
    ],
)
def test_money(usd: str, microusd: int, shown: str) -> None:
    assert microusd_from_usd(usd) == microusd
    assert format_usd(microusd) == shown


@pytest.mark.parametrize("wrong", ["", "ten", "NaN", "Infinity", "0.0000001"])
def test_money_refuses_what_is_not_exact(wrong: str) -> None:
    with pytest.raises(ValueError):
        microusd_from_usd(wrong)


@given(st.integers(-(10**15), 10**15))
def test_money_survives_being_shown(amount: int) -> None:
    assert microusd_from_usd(format_usd(amount).replace("$", "").replace(",", "")) == amount


@given(st.datetimes(timezones=st.just(UTC)), st.text(st.characters(exclude_characters="\x00"), max_size=40))
def test_cursors_come_back(time: datetime, last_id: str) -> None:
    assert decode_cursor(encode_cursor(Position(time, last_id))) == Position(time, last_id)


@given(st.text(max_size=60))
def test_any_other_cursor_is_refused(text: str) -> None:
    try:
        position = decode_cursor(text)
    except InvalidInputError:
        return
    assert encode_cursor(position)


@given(st.binary(max_size=200), st.text(max_size=40))
def test_secrets_come_back_and_only_where_they_belong(plain: bytes, context: str) -> None:
    keyring = _keyring_for_all_examples
    sealed = keyring.encrypt(plain, context)
    assert keyring.decrypt(sealed, context) == plain
    with pytest.raises(DecryptionError):
        keyring.decrypt(sealed, context + "x")
    with pytest.raises(DecryptionError):
        keyring.decrypt(sealed[:-1] + bytes([sealed[-1] ^ 1]), context)


def test_a_key_file_is_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = load_or_create_keyring(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert load_or_create_keyring(path) == first


def test_a_new_key_on_top_encrypts_and_the_old_one_still_decrypts(tmp_path: Path) -> None:
    old = load_or_create_keyring(tmp_path / "old")
    sealed = old.encrypt(b"secret", "row")
    load_or_create_keyring(tmp_path / "new")
    (tmp_path / "both").write_text((tmp_path / "new").read_text() + (tmp_path / "old").read_text())
    both = load_or_create_keyring(tmp_path / "both")
    assert both.decrypt(sealed, "row") == b"secret"
    with pytest.raises(DecryptionError, match="not in the key file"):
        old.decrypt(both.encrypt(b"x", "row"), "row")


def test_a_broken_key_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("what is this\n")
    with pytest.raises(SettingsError, match="keys"):
        load_or_create_keyring(tmp_path / "keys")


@pytest.mark.parametrize(
    ("given_address", "expected"),
    [
        (" ann@Example.COM ", "ann@example.com"),
        ("Ann@example.com", "Ann@example.com"),
        ("a.b+c@d.io", "a.b+c@d.io"),
    ],
)
def test_addresses_are_trimmed_and_their_domain_lowered(given_address: str, expected: str) -> None:
    assert normalized(given_address) == expected


@pytest.mark.parametrize(
    "wrong", ["", "ann", "@x.io", "a@", "a b@x.io", "a@x\ny.io", "ann@ex ample.com", "änn@x.io", "a@-x.io"]
)
def test_what_is_not_an_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        normalized(wrong)


async def test_virtual_time_wakes_sleepers_in_order() -> None:
    import asyncio

    clock, woken = VirtualClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3.0, 1.0, 2.0)]
    await asyncio.sleep(0)
    await clock.advance(2.5)
    assert woken == [(1.0, 1.0), (2.0, 2.0)]
    await clock.advance(1)
    await asyncio.gather(*tasks)
    assert woken[-1] == (3.0, 3.0)


def _make_keyring():  # type: ignore[no-untyped-def]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return load_or_create_keyring(Path(folder) / "keys")


_keyring_for_all_examples = _make_keyring()
