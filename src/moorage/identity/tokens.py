"""Secrets that Moorage hands out, recognisable by their prefix so that scanners can find leaked ones. Pure but for
the randomness.

`moor_` + 30 base62 characters (178 bits) + 6 of checksum is an API key; `moor_op_` the operator's; `moor_ses_` a
session. Base62 has no underscore, so the kinds cannot be confused.
"""

import hashlib
import hmac
import secrets
import string
import zlib

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_LENGTH = 30
_CHECKSUM_LENGTH = 6

API_KEY_PREFIX = "moor_"
OPERATOR_KEY_PREFIX = "moor_op_"
SESSION_PREFIX = "moor_ses_"
LINK_PREFIX = "moor_link_"
INVITATION_PREFIX = "moor_inv_"
PROVIDER_ATTEMPT_PREFIX = "moor_oauth_"
DEVICE_PREFIX = "moor_dev_"


def new_token(prefix: str) -> str:
    body = "".join(secrets.choice(_BASE62) for _ in range(_RANDOM_LENGTH))
    return prefix + body + _checksum(prefix + body)


def is_well_formed(token: str, prefix: str) -> bool:
    """Whether this could be one of ours: cheap, and keeps typing errors from the database."""
    body, checksum = token[len(prefix) : -_CHECKSUM_LENGTH], token[-_CHECKSUM_LENGTH:]
    shaped = token.startswith(prefix) and len(body) == _RANDOM_LENGTH and body.isascii() and body.isalnum()
    return shaped and checksum == _checksum(prefix + body)


def csrf_token(session_token: str) -> str:
    """Follows from the session's token, which a foreign site cannot read."""
    return hmac.new(session_token.encode(), b"csrf", hashlib.sha256).hexdigest()


def _checksum(text: str) -> str:
    value = zlib.crc32(text.encode())
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits))
