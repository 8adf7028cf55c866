"""What a certificate file says, when another is due, and one to begin with."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from moorage.gateway.acme.account import new_private_key, private_key_of

TRY_AGAIN_AFTER = timedelta(minutes=15)
"""Authorities bear five failures of a name within an hour."""
TRY_WITHIN = timedelta(minutes=5)
BROKEN_OFF = "The last try was broken off."
"""Written down while a try is under way, so that it is true of whoever is killed in it."""
_FIRST_LASTS = timedelta(days=7)
_GIVEN_BY = re.compile(rb"# Given by ([!-~]+)\n")


@dataclass(frozen=True)
class Asked:
    """What the settings say: a certificate for whom, and from whom."""

    names: tuple[str, ...]
    directory: str


@dataclass(frozen=True)
class Held:
    names: frozenset[str]
    begins_at: datetime
    ends_at: datetime
    is_first: bool
    """Signed by nobody but itself, so that there is something to begin with."""
    directory: str | None = None
    """Of the authority that gave it, where the file says so."""


@dataclass(frozen=True)
class Tried:
    at: datetime
    asked: Asked
    trouble: str | None


def wanted(held: Held | None, asked: Asked, now: datetime) -> bool:
    """The last third of its time is there for renewing it. One of another authority, of one for trying out perhaps, which nobody trusts,
    does not count."""
    if held is None or held.is_first or not held.names >= set(asked.names):
        return True
    if held.directory not in (None, asked.directory):
        return True
    return now > held.ends_at - (held.ends_at - held.begins_at) / 3


def may_try(tried: Tried | None, asked: Asked, now: datetime) -> bool:
    """After one that was given, too: authorities give few of the same names in a week, and a clock that is wrong would want another
    every minute."""
    if tried is None or tried.asked != asked:
        return True
    return not tried.at <= now < tried.at + TRY_AGAIN_AFTER


def read(pem: bytes) -> Held | None:
    """None for what is no certificate."""
    try:
        first = x509.load_pem_x509_certificates(pem)[0]
    except ValueError:
        return None
    return Held(
        _names(first),
        first.not_valid_before_utc.astimezone(UTC),
        first.not_valid_after_utc.astimezone(UTC),
        is_first=first.issuer == first.subject,
        directory=found[1].decode() if (found := _GIVEN_BY.match(pem)) is not None else None,
    )


def given_by(directory: str, pem: str) -> str:
    """What stands before the certificate in a file is for people, and for `read`."""
    return f"# Given by {directory}\n{pem}"


def trouble_now(tried: Tried | None, asked: Asked, now: datetime) -> str | None:
    """Why these names still wait for a certificate."""
    if tried is None or tried.asked != asked:
        return None
    is_under_way = tried.trouble == BROKEN_OFF and tried.at <= now < tried.at + TRY_WITHIN
    return None if is_under_way else tried.trouble


def has_its_key(pem: bytes) -> bool:
    try:
        key = private_key_of(pem.decode())
        return x509.load_pem_x509_certificates(pem)[0].public_key() == key.public_key()
    except (ValueError, AssertionError):
        return False


def trouble_with(pem: bytes, names: Collection[str]) -> str | None:
    """What an authority gave is looked at before it takes the place of one that works."""
    held = read(pem)
    if held is None:
        return "the authority issued no certificate"
    if not has_its_key(pem):
        return "the authority issued a certificate for somebody else's key"
    if missing := set(names) - held.names:
        return f"the authority issued a certificate without {', '.join(sorted(missing))}"
    return None


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(found.get_values_for_type(x509.DNSName))


def first_certificate(names: Sequence[str], now: datetime) -> str:
    """HAProxy begins to serve before the authority has answered; until then clients are refused by what they check."""
    key_pem = new_private_key()
    key = private_key_of(key_pem)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _FIRST_LASTS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode() + key_pem


def request_for(names: Sequence[str], key_pem: str) -> bytes:
    """A certificate signing request. Without a common name, which is a name to be proved like the others, and ends after 64 characters."""
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(alternatives, critical=False)
    )
    return request.sign(private_key_of(key_pem), hashes.SHA256()).public_bytes(Encoding.PEM)
