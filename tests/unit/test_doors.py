"""Who signs for doors, when another takes over, and what a certificate says."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from moorage.engines.doors import (
    KNOWN_AFTER,
    LASTS,
    SUCCEEDED_AFTER,
    Authority,
    door_certificate,
    door_name,
    new_authority,
    signing,
    successor_is_due,
    trusting,
)
from moorage.kit.ids import new_replica_id

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def made(before: timedelta) -> Authority:
    return Authority(f"made {before}", NOW - before, "")


def test_the_only_one_signs_at_once() -> None:
    only = made(timedelta())
    assert signing([only], NOW) is only
    assert signing([], NOW) is None


def test_a_successor_signs_once_every_gateway_knows_it() -> None:
    old = made(SUCCEEDED_AFTER)
    assert signing([old, made(KNOWN_AFTER - timedelta(seconds=1))], NOW) is old
    new = made(KNOWN_AFTER)
    assert signing([old, new], NOW) is new


def test_a_successor_is_made_long_before_the_end() -> None:
    assert successor_is_due([], NOW)
    assert not successor_is_due([made(SUCCEEDED_AFTER - timedelta(days=1))], NOW)
    assert successor_is_due([made(SUCCEEDED_AFTER)], NOW)
    assert not successor_is_due([made(SUCCEEDED_AFTER), made(timedelta())], NOW)
    assert SUCCEEDED_AFTER + KNOWN_AFTER < LASTS


def test_a_certificate_is_for_one_replica_and_signs_nothing() -> None:
    authority, replica_id = new_authority("ins_a", NOW), new_replica_id()
    pem = door_certificate(authority, replica_id, NOW)
    certificate = x509.load_pem_x509_certificate(pem.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [door_name(replica_id)]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    certificate.verify_directly_issued_by(issuer)
    assert certificate.not_valid_before_utc < NOW, "clocks differ"
    assert certificate.not_valid_after_utc == issuer.not_valid_after_utc
    assert authority.key not in pem


def test_nobody_is_trusted_besides() -> None:
    context = trusting(new_authority("ins_a", NOW).certificate)
    assert len(context.get_ca_certs()) == 1
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


@pytest.mark.parametrize("replica_id", [new_replica_id() for _ in range(3)], ids=range(3))
def test_a_name_is_one_of_a_host(replica_id: str) -> None:
    assert "_" not in door_name(replica_id)
    assert len(door_name(replica_id)) == len(replica_id) <= 63
