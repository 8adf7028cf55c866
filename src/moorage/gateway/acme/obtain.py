"""Asks the authority for a certificate: a process of its own, because the library waits without giving the loop a turn, and so
that a gateway that ends need not wait for an authority.

    python -m moorage.gateway.acme.obtain ORDER     (JSON, as `Order`; the certificate and its key are printed, or why there is none)
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import requests
from acme import challenges, client, errors, messages
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWKEC

from moorage.gateway.acme.account import load_or_create_account_key, new_private_key
from moorage.gateway.acme.certificate import request_for
from moorage.kit.parent import end_with_parent


@dataclass(frozen=True)
class Order:
    names: tuple[str, ...]
    email: str
    directory: str
    root: str | None
    folder: str

    def as_argument(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    end_with_parent()
    order = Order(**json.loads(sys.argv[1]))
    try:
        print(obtain(order), end="")
    except (errors.Error, messages.Error, requests.RequestException, JoseError, OSError) as exc:
        sys.exit(why(exc))


def obtain(order: Order) -> str:
    """The certificate with its chain, then its key."""
    authority, key = _authority(order)
    private_key = new_private_key()
    asked = authority.new_order(request_for(order.names, private_key))
    for authorization in asked.authorizations:
        if authorization.body.status == messages.STATUS_VALID:
            continue  # Proved not long ago.
        challenge = _by_http(authorization)
        authority.answer_challenge(challenge, challenge.response(key))
    return str(authority.poll_and_finalize(asked).fullchain_pem).rstrip("\n") + "\n" + private_key


def why(exc: Exception) -> str:
    """In the authority's own words where it has some."""
    if isinstance(exc, errors.ValidationError):
        found = [
            f"{one.body.identifier.value}: {challenge.error.detail}"
            for one in exc.failed_authzrs
            for challenge in one.body.challenges
            if challenge.error is not None
        ]
        return "; ".join(found) or "the authority could not prove the names and does not say why"
    if isinstance(exc, messages.Error):
        return str(exc.detail or exc.title or exc.typ)
    if isinstance(exc, errors.TimeoutError):
        return "the authority did not finish within 90 s"
    return str(exc) or type(exc).__name__


def _authority(order: Order) -> tuple[client.ClientV2, JWKEC]:
    key = load_or_create_account_key(Path(order.folder))
    net = client.ClientNetwork(key, alg=ES256, user_agent="moorage")
    if order.root is not None:
        # `requests` takes a file for this switch as well.
        net.verify_ssl = order.root  # type: ignore[assignment]
    authority = client.ClientV2(client.ClientV2.get_directory(order.directory, net), net)
    me = messages.NewRegistration.from_data(email=order.email, terms_of_service_agreed=True)
    try:
        authority.new_account(me)
    except errors.ConflictError as exc:
        net.account = messages.RegistrationResource(uri=exc.location, body=messages.Registration())
    return authority, key


def _by_http(authorization: messages.AuthorizationResource) -> messages.ChallengeBody:
    for challenge in authorization.body.challenges:
        if isinstance(challenge.chall, challenges.HTTP01):
            return challenge
    raise errors.ClientError(f"the authority does not prove {authorization.body.identifier.value} by HTTP")


if __name__ == "__main__":
    main()
