"""Addresses: who somebody is, and which mailbox it usually is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.clients import source_of
from moorage.kit.email import mailbox, normalized


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("ada@example.com", "ada@example.com"),
        ("ADA@example.com", "ada@example.com"),
        ("ada+1@example.com", "ada@example.com"),
        ("ada+1+2@example.com", "ada@example.com"),
        ("ada+@example.com", "ada@example.com"),
        ("+ada@example.com", "+ada@example.com"),
        ("a.d.a@example.com", "a.d.a@example.com"),
        ("a.d.a@gmail.com", "ada@gmail.com"),
        ("A.da+x.y@googlemail.com", "ada@gmail.com"),
        ("..@gmail.com", "..@gmail.com"),
        ("ada@mail.gmail.com", "ada@mail.gmail.com"),
    ],
)
def test_mailbox(address: str, expected: str) -> None:
    assert mailbox(normalized(address)) == expected


@given(st.text("aB.+", min_size=1, max_size=8), st.sampled_from(("gmail.com", "GoogleMail.com", "b.com")))
def test_a_mailbox_is_its_own(local: str, domain: str) -> None:
    once = mailbox(normalized(f"{local}@{domain}"))
    assert mailbox(once) == once


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_source(host: str, source: str) -> None:
    assert source_of(host) == source
