"""What a registry asks for with a 401, and who may be given a password. Pure.

A registry's 401 names the address where a token is to be had. Whoever believes it hands the password to
whomever the registry names (containerd's CVE-2020-15157). Here it goes to the registry's own host, and to the
token service that a known provider has elsewhere, and nowhere else.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moorage.outbound.registry.credentials import RegistryCredentials

_MAX_HEADER_CHARACTERS = 8192
_TOKEN68_OR_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~/=-]+")
_PARAMETER = re.compile(
    r"""([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"((?:[^"\\\x00-\x1f]|\\[ -~])*)"|([A-Za-z0-9!#$%&'*+.^_`|~:/?-]+))"""
)
_SERVICE = re.compile(r"[ -~]{1,255}")
_TOKEN = re.compile(r"[!-~]{1,65536}")

# Registry host → hosts of the same provider that give tokens for it, where that is not the registry itself.
_TOKEN_HOSTS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(registry), re.compile(realm))
    for registry, realm in (
        (r"registry-1\.docker\.io", r"auth\.docker\.io"),
        (r"registry\.gitlab\.com", r"gitlab\.com"),
        (r"nvcr\.io", r"authn\.nvidia\.com"),
        (r"([a-z0-9-]+\.)?gcr\.io", r"([a-z0-9-]+\.)?gcr\.io"),
        (r"[a-z0-9-]+-docker\.pkg\.dev", r"[a-z0-9-]+-docker\.pkg\.dev"),
        # ghcr.io, quay.io, public.ecr.aws and each *.azurecr.io give tokens themselves; private ECR takes Basic.
    )
)


@dataclass(frozen=True)
class Challenge:
    scheme: str
    """In lower case: `basic` or `bearer`, or something that we cannot answer."""
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """All challenges of all `WWW-Authenticate` headers; what cannot be read ends its header."""
    return tuple(challenge for header in headers for challenge in _parse_header(header))


def choose_challenge(challenges: tuple[Challenge, ...]) -> Challenge | None:
    """A token before the password itself, since a token is good for one image and some minutes only."""
    for scheme in ("bearer", "basic"):
        for challenge in challenges:
            if challenge.scheme == scheme and (scheme == "basic" or "realm" in challenge.parameters):
                return challenge
    return None


def may_receive_credentials(registry_host: str, realm_host: str) -> bool:
    if registry_host == realm_host:
        return True
    return any(
        registry.fullmatch(registry_host) and realm.fullmatch(realm_host) for registry, realm in _TOKEN_HOSTS
    )


def token_query(challenge: Challenge, repository: str) -> dict[str, str]:
    """We ask to read this one repository, whatever scope the registry would like us to ask for."""
    query = {"scope": f"repository:{repository}:pull"}
    service = challenge.parameters.get("service", "")
    if _SERVICE.fullmatch(service):
        query["service"] = service
    return query


def parse_token(body: bytes) -> str:
    """Raises `ValueError`, which never holds any of the answer."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the token service did not answer with JSON") from None
    if not isinstance(answer, dict):
        raise ValueError("the token service did not answer with a JSON object")
    token = answer.get("token") or answer.get("access_token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError("the token service gave no token")
    return token


def basic_authorization(credentials: RegistryCredentials) -> str:
    pair = f"{credentials.username}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def bearer_authorization(token: str) -> str:
    return f"Bearer {token}"


def _parse_header(header: str) -> list[Challenge]:
    """`Bearer realm="https://a/t",service="a", Basic realm="b"` → two challenges.

    A name without `=` behind it begins a new challenge; commas separate parameters and challenges alike.
    """
    challenges: list[tuple[str, dict[str, str]]] = []
    position, end = 0, min(len(header), _MAX_HEADER_CHARACTERS)
    while position < end:
        if header[position] in " \t,":
            position += 1
            continue
        parameter = _PARAMETER.match(header, position, end)
        if parameter and challenges:
            name, quoted, bare = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
            challenges[-1][1].setdefault(name.lower(), value)
            position = parameter.end()
            continue
        scheme = _TOKEN68_OR_NAME.match(header, position, end)
        if scheme is None or parameter:
            break
        challenges.append((scheme.group().lower(), {}))
        position = scheme.end()
    return [Challenge(scheme, parameters) for scheme, parameters in challenges]
