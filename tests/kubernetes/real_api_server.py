"""A real API server with its database, for tests: etcd and kube-apiserver from a folder of programs.

The programs are looked for in `MOORAGE_TEST_KUBERNETES`, or below the user's cache; nothing is fetched or built by the project.
"""

import asyncio
import base64
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.engines.kubernetes.account import account_from
from moorage.engines.kubernetes.connection import ApiServer
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError
from tests.ports import free_port

SETTING = "MOORAGE_TEST_KUBERNETES"
READY_WITHIN_S = 120.0
SERVICES = "10.96.0.0/16"


def programs_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(SETTING) or cache / "moorage" / "kubernetes")


def program(name: str) -> Path | None:
    """In the folder itself, its `bin`, or unpacked Debian packages below its `root`; else the system's."""
    folder = programs_folder()
    places = [
        folder,
        folder / "bin",
        *(folder / "root" / one for one in ("usr/bin", "usr/sbin", "sbin", "bin")),
    ]
    places += [Path(one) for one in os.environ["PATH"].split(":")]
    return next(
        (place / name for place in places if (place / name).is_file() and os.access(place / name, os.X_OK)),
        None,
    )


def missing(*names: str) -> list[str]:
    return [name for name in names if program(name) is None]


@dataclass
class Authority:
    """The cluster's own CA."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-cluster")])
        self.certificate = self._build(self._name, self._key.public_key(), [], is_authority=True)
        (self.folder / "ca.crt").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / "ca.key").write_bytes(_pem(self._key))

    def issue(self, file: str, name: str, group: str | None = None, hosts: tuple[str, ...] = ()) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group is not None:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        certificate = self._build(x509.Name(parts), key.public_key(), list(hosts))
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{file}.key").write_bytes(_pem(key))

    def _build(
        self, subject: x509.Name, public: Any, hosts: list[str], *, is_authority: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


@dataclass
class RealApiServer:
    folder: Path
    authority: Authority
    server: str
    store: str
    """Where its database listens."""
    command: list[str]
    process: subprocess.Popen[bytes]

    async def forget_old_versions(self) -> None:
        """All but the newest are gone, from the database and from the API server's memory."""
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{self.store}/v3/kv/range", json={"key": "AA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with http.post(f"{self.store}/v3/kv/compaction", json={"revision": revision}) as answer:
                assert answer.status == 200, await answer.text()
        await self.restart()

    async def restart(self) -> None:
        await _ended(self.process)
        self.process = _begin(self.folder, "kube-apiserver", self.command)
        await _until_ready(self)

    def kubeconfig(self, user: str) -> Path:
        """With the certificate of that name."""
        path = self.folder / f"{user}.conf"
        encoded = {
            name: base64.b64encode((self.folder / name).read_bytes()).decode()
            for name in ("ca.crt", f"{user}.crt", f"{user}.key")
        }
        cluster = {"server": self.server, "certificate-authority-data": encoded["ca.crt"]}
        login = {"client-certificate-data": encoded[f"{user}.crt"], "client-key-data": encoded[f"{user}.key"]}
        return self.write_config(path, cluster, login)

    def kubeconfig_of_token(self, file: str, token: str) -> Path:
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        cluster = {"server": self.server, "certificate-authority-data": authority}
        return self.write_config(self.folder / file, cluster, {"token": token})

    @staticmethod
    def write_config(path: Path, cluster: dict[str, Any], login: dict[str, Any]) -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": login}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


@asynccontextmanager
async def real_api_server(
    folder: Path, address: str = "127.0.0.1", *, in_node: tuple[str, ...] = (), more: tuple[str, ...] = ()
) -> AsyncIterator[RealApiServer]:
    """`in_node`: a command in front of each program, that runs it in a node's namespaces."""
    authority = Authority(folder)
    hosts = (address, "127.0.0.1", "10.96.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
    authority.issue("apiserver", "kube-apiserver", hosts=tuple(dict.fromkeys(hosts)))
    authority.issue("admin", "admin", "system:masters")
    authority.issue("to-kubelets", "kube-apiserver-kubelet-client", "system:masters")
    account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "accounts.key").write_bytes(_pem(account_key))
    port, store, peer = (free_port() for _ in range(3))
    etcd = [
        f"{program('etcd')}",
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{store}",
        f"--advertise-client-urls=http://127.0.0.1:{store}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]
    api = [
        f"{program('kube-apiserver')}",
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}" if address != "127.0.0.1" else "--advertise-address=192.0.2.1",
        f"--secure-port={port}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--client-ca-file={folder}/ca.crt",
        f"--tls-cert-file={folder}/apiserver.crt",
        f"--tls-private-key-file={folder}/apiserver.key",
        f"--kubelet-certificate-authority={folder}/ca.crt",
        f"--kubelet-client-certificate={folder}/to-kubelets.crt",
        f"--kubelet-client-key={folder}/to-kubelets.key",
        f"--service-account-key-file={folder}/accounts.key",
        f"--service-account-signing-key-file={folder}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",  # so that it is the policy that refuses
        "--enable-admission-plugins=NodeRestriction",
        "--kubelet-preferred-address-types=InternalIP",
        f"--cert-dir={folder}",
        *more,
    ]
    async with running(folder, "etcd", [*in_node, *etcd]):
        command = [*in_node, *api]
        process = _begin(folder, "kube-apiserver", command)
        server = RealApiServer(
            folder, authority, f"https://{address}:{port}", f"http://127.0.0.1:{store}", command, process
        )
        try:
            await _until_ready(server)
            yield server
        finally:
            await _ended(server.process)


@asynccontextmanager
async def running(folder: Path, name: str, command: list[str]) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = _begin(folder, name, command)
    try:
        yield process
    finally:
        await _ended(process)


async def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, 10)
    if process.poll() is None:
        process.kill()
        await asyncio.to_thread(process.wait)


def _begin(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: a key that ends the tests does not end it before them."""
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )


async def _until_ready(started: RealApiServer) -> None:
    api = ApiServer(account_from(str(started.kubeconfig("admin"))), system_clock)
    deadline_s = system_clock.monotonic() + READY_WITHIN_S
    try:
        while True:
            try:
                if await api.text("is it ready", "/readyz") == b"ok":
                    return
            except EngineError:
                pass  # it does not listen yet
            assert system_clock.monotonic() < deadline_s, _last_words(started.folder)
            await asyncio.sleep(0.2)
    finally:
        await api.close()


def _last_words(folder: Path) -> str:
    return (folder / "kube-apiserver.log").read_text()[-2000:]


def _pem(key: Any) -> bytes:
    return bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _alternative(host: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    return x509.DNSName(host)
