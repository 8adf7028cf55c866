"""Who is behind an address: a *door* in front of a replica proves that it is this replica's, on every connection. Pure.

Where an engine gives addresses by itself, it gives the next replica the address of one that has gone, without asking anybody. So the
address is not believed: a door holds a key and a certificate for the replica's own name, signed by an authority of the
installation, and whoever connects checks both before it says a word. The name is never given to another replica.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.kit.ids import ReplicaId

LASTS = timedelta(days=3650)
SUCCEEDED_AFTER = timedelta(days=1825)
"""So a replica may run for at least as long again before its certificate ends."""
KNOWN_AFTER = timedelta(hours=1)
"""A new authority signs nothing before that: every gateway that lives has read of it by then."""
CLOCKS_DIFFER_BY = timedelta(days=1)
_UNENCRYPTED = serialization.NoEncryption()
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    certificate: str
    """PEM, for everybody who connects to a door."""
    made_at: datetime
    key: str = field(repr=False)
    """PEM, for whoever starts replicas, and for nobody else."""


class Doors(Protocol):
    """The installation's authorities, as engines and probes need them."""

    async def authority(self) -> Authority:
        """That signs now."""
        ...

    async def trust(self) -> ssl.SSLContext:
        """For connections to doors: checks a door's name, which is `door_name` of the replica meant."""
        ...


def door_name(replica_id: ReplicaId | str) -> str:
    """Host names have no underscores."""
    return replica_id.replace("_", "-")


def signing(authorities: Sequence[Authority], now: datetime) -> Authority | None:
    """The newest one that all gateways know; before any is so old, the first one that there was."""
    known = [one for one in authorities if now - one.made_at >= KNOWN_AFTER]
    return (
        max(known, key=lambda one: one.made_at)
        if known
        else min(authorities, key=lambda one: one.made_at, default=None)
    )


def successor_is_due(authorities: Sequence[Authority], now: datetime) -> bool:
    return all(now - one.made_at >= SUCCEEDED_AFTER for one in authorities)


def new_authority(installation_id: str, now: datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"doors of {installation_id}")])
    certificate = (
        _certificate(name, name, key.public_key(), now, now + LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(_PEM).decode(), now, _private(key))


def door_certificate(authority: Authority, replica_id: ReplicaId, now: datetime) -> str:
    """Certificate and key in one PEM. It lasts as long as its authority: replicas are not restarted for a date, and a name that is
    never given again needs no shorter one."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    issuer_key = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey), "as it was made here"
    key = ec.generate_private_key(ec.SECP256R1())
    name = door_name(replica_id)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _certificate(subject, issuer.subject, key.public_key(), now, issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return certificate.public_bytes(_PEM).decode() + _private(key)


def trusting(certificates: str) -> ssl.SSLContext:
    """These authorities and no other, least of all those that the machine trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificates:
        context.load_verify_locations(cadata=certificates)
    return context


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER_BY)
        .not_valid_after(until)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _UNENCRYPTED).decode()
