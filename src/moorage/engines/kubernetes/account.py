"""Where the API server is, and who we are to it: the account of the Pod that we run in, or a kubeconfig file."""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from moorage.kit.clock import Clock
from moorage.kit.errors import SettingsError

IN_CLUSTER = "in-cluster"
_MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_S = 60.0
"""The kubelet renews a mounted token long before it expires."""


@dataclass
class Token:
    """A file's content, read again now and then; or one that does not change."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None
    _read_at_s: float | None = field(default=None, init=False)

    def read(self, clock: Clock) -> str | None:
        if self.file is None:
            return self.text
        now_s = clock.monotonic()
        if self._read_at_s is None or now_s - self._read_at_s > _TOKEN_AGE_S:
            self.text, self._read_at_s = self.file.read_text().strip(), now_s
        return self.text


@dataclass(frozen=True)
class Account:
    server: str
    tls: ssl.SSLContext | None
    """None for a server without TLS, which only a test has."""
    token: Token

    @property
    def address(self) -> tuple[str, int] | None:
        """Of the API server, where it is named by one."""
        parts = urlsplit(self.server)
        try:
            host = str(ip_address(parts.hostname or ""))
        except ValueError:
            return None
        return host, parts.port or 443


def account_from(where: str) -> Account:
    """`in-cluster`, or the path of a kubeconfig. Raises `SettingsError`."""
    try:
        return _in_cluster() if where == IN_CLUSTER else _from_kubeconfig(Path(where))
    except (OSError, ssl.SSLError, yaml.YAMLError, KeyError, TypeError, ValueError, binascii.Error) as exc:
        raise SettingsError(
            f"MOORAGE_KUBERNETES={where}: the way to the cluster cannot be read from there "
            f"({type(exc).__name__}: {exc})."
        ) from exc


def _in_cluster() -> Account:
    # The kubelet sets these for every Pod; they are no settings of ours.
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    tls = ssl.create_default_context(cafile=str(_MOUNTED / "ca.crt"))
    host = f"[{host}]" if ":" in host else host
    return Account(f"https://{host}:{port}", tls, Token(file=_MOUNTED / "token"))


def _from_kubeconfig(path: Path) -> Account:
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    if "exec" in user or "auth-provider" in user:
        raise ValueError("it asks another program for a token; use a service account's token")
    server = str(cluster["server"]).rstrip("/")
    tls = _tls(cluster, user, path.parent) if server.startswith("https://") else None
    token_file = user.get("tokenFile")
    return Account(server, tls, Token(user.get("token"), path.parent / token_file if token_file else None))


def _named(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("insecure-skip-tls-verify would give our token to anybody; name the cluster's CA")
    authority = _content(cluster, "certificate-authority", folder)
    tls = ssl.create_default_context(cadata=authority.decode() if authority is not None else None)
    certificate, key = (_content(user, name, folder) for name in ("client-certificate", "client-key"))
    if certificate is not None and key is not None:
        # The library reads them from a file alone.
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            tls.load_cert_chain(both.name)
    return tls


def _content(entry: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"], validate=True)
    return (folder / entry[name]).read_bytes() if name in entry else None
