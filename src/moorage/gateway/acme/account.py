"""Who we are at the authority: one key, made at the first start.

Its thumbprint is all that an answer to the authority needs beside the question, so the gateway answers by a rule and keeps no
questions (`frontend.py`).
"""

from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from josepy.json_util import encode_b64jose
from josepy.jwk import JWKEC

from moorage.kit.whole_files import create_whole


def load_or_create_account_key(folder: Path) -> JWKEC:
    path = folder / "account.pem"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            create_whole(path, new_private_key(), 0o600)
    return JWKEC(key=private_key_of(path.read_text()))


def thumbprint(key: JWKEC) -> str:
    return encode_b64jose(key.thumbprint())


def new_private_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def private_key_of(pem: str) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem.encode(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "made above"
    return key
