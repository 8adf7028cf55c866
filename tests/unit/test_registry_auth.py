import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.outbound.registry.auth import (
    Challenge,
    basic_authorization,
    choose_challenge,
    may_receive_credentials,
    parse_challenges,
    parse_token,
    token_query,
)
from moorage.outbound.registry.credentials import RegistryCredentials


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (['Basic realm="Registry Realm"'], [("basic", {"realm": "Registry Realm"})]),
        (
            [
                'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push"'
            ],
            [
                (
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "repository:a:pull,push",
                    },
                )
            ],
        ),
        (
            ['bearer Realm = "https://a/t" , service=b, BASIC realm=c'],
            [("bearer", {"realm": "https://a/t", "service": "b"}), ("basic", {"realm": "c"})],
        ),
        (['Bearer realm="a"', 'Basic realm="b"'], [("bearer", {"realm": "a"}), ("basic", {"realm": "b"})]),
        (['Bearer realm="say \\"hi\\""'], [("bearer", {"realm": 'say "hi"'})]),
        (['Bearer realm="first",realm="second"'], [("bearer", {"realm": "first"})]),
        (["Negotiate"], [("negotiate", {})]),
        (['Bearer realm="never closed'], [("bearer", {}), ("realm=", {})]),
        (['realm="no scheme"'], []),
        ([""], []),
    ],
)
def test_parse_challenges(headers: list[str], expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(found.scheme, found.parameters) for found in parse_challenges(headers)] == expected


@given(st.text(max_size=300))
def test_any_header_can_be_parsed(header: str) -> None:
    for challenge in parse_challenges([header]):
        assert challenge.scheme == challenge.scheme.lower()


def test_a_token_is_preferred() -> None:
    basic, bearer = Challenge("basic", {}), Challenge("bearer", {"realm": "https://a/t"})
    assert choose_challenge((basic, bearer)) == bearer
    assert choose_challenge((Challenge("bearer", {}), basic)) == basic
    assert choose_challenge((Challenge("negotiate", {}),)) is None


@pytest.mark.parametrize(
    ("registry", "realm", "allowed"),
    [
        ("registry.example.com", "registry.example.com", True),
        ("registry.example.com", "auth.example.com", False),
        ("registry.example.com", "registry.example.com.evil.example", False),
        ("registry-1.docker.io", "auth.docker.io", True),
        ("registry-1.docker.io", "auth.docker.io.evil.example", False),
        ("registry-1.docker.io", "evil-auth.docker.io", False),
        ("evil.example", "auth.docker.io", False),
        ("ghcr.io", "ghcr.io", True),
        ("ghcr.io", "github.io", False),
        ("registry.gitlab.com", "gitlab.com", True),
        ("gitlab.com", "registry.gitlab.com", False),
        ("nvcr.io", "authn.nvidia.com", True),
        ("eu.gcr.io", "gcr.io", True),
        ("eu.gcr.io", "evilgcr.io", False),
        ("europe-docker.pkg.dev", "europe-docker.pkg.dev", True),
        ("europe-docker.pkg.dev", "evil.pkg.dev", False),
        ("acme.azurecr.io", "acme.azurecr.io", True),
        ("acme.azurecr.io", "other.azurecr.io", False),
        ("quay.io", "quay.io", True),
        ("public.ecr.aws", "public.ecr.aws", True),
        ("123456789012.dkr.ecr.eu-west-1.amazonaws.com", "s3.amazonaws.com", False),
    ],
)
def test_who_may_have_the_password(registry: str, realm: str, allowed: bool) -> None:
    assert may_receive_credentials(registry, realm) is allowed


def test_token_query_asks_for_this_repository_only() -> None:
    challenge = Challenge("bearer", {"service": "registry", "scope": "repository:other:push"})
    assert token_query(challenge, "acme/chat") == {
        "scope": "repository:acme/chat:pull",
        "service": "registry",
    }
    assert token_query(Challenge("bearer", {"service": "a\nb"}), "x") == {"scope": "repository:x:pull"}


@pytest.mark.parametrize(
    "body", [b'{"token": "abc"}', b'{"access_token": "abc"}', b'{"token": "", "access_token": "abc"}']
)
def test_parse_token(body: bytes) -> None:
    assert parse_token(body) == "abc"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"token": 5}', b'{"token": "secret-canary\\r\\nX: y"}', b"[" * 60_000],
)
def test_parse_token_refuses(body: bytes) -> None:
    with pytest.raises(ValueError) as caught:
        parse_token(body)
    assert "canary" not in str(caught.value)


def test_basic() -> None:
    assert basic_authorization(RegistryCredentials("ann", "wörd")) == "Basic YW5uOnfDtnJk"
