"""The database's address as every provider writes it: `postgresql://user:password@host/database?sslmode=verify-full&…`.

Three programs connect with it: asyncpg, which knows most of libpq's parameters; SQLAlchemy, which knows none of them and is
therefore given a function that connects; and pg_dump, whose bundled build speaks no TLS (`database_relay.py`). What is wrong with
an address is said once, here, and never with its password.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from moorage.kit.errors import SettingsError

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TLS_OR_NOTHING = frozenset({"require", "verify-ca", "verify-full"})
_VERIFYING = frozenset({"verify-ca", "verify-full"})
_SESSIONS = ("any", "primary", "read-write")
_SESSIONS_THAT_READ = frozenset({"standby", "read-only", "prefer-standby"})
_SYSTEM = "system"
"""As `sslrootcert`: whom this machine trusts."""

_OF_THE_ADDRESS = frozenset({"host", "port", "user", "password", "dbname", "database"})
_OF_TLS = frozenset(
    {
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslnegotiation"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version"),
    }
)
_OF_THE_SESSION = frozenset({"target_session_attrs", "options", "application_name"})
_OF_LIBPQ_ALONE = frozenset(
    {
        *("channel_binding", "connect_timeout", "gssencmode", "sslcompression", "sslsni", "sslcertmode"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        *("load_balance_hosts", "fallback_application_name", "client_encoding"),
    }
)
"""Providers hand them out, asyncpg does not know them, and nothing is lost without them but `channel_binding`, which asyncpg does
not speak: `sslmode=verify-full` protects from the same."""
_TRUE = frozenset({"true", "1", "on", "yes"})


@dataclass(frozen=True)
class Dsn:
    user: str | None
    password: str | None
    database: str | None
    hosts: tuple[tuple[str, int], ...]
    """A name or an address with its port, or the folder of a Unix socket."""
    parameters: Mapping[str, str]
    """All others."""

    @property
    def sslmode(self) -> str:
        return self.parameters.get("sslmode", "prefer")

    @property
    def never_plain(self) -> bool:
        return self.sslmode in _TLS_OR_NOTHING

    @property
    def may_use_tls(self) -> bool:
        return self.sslmode != "disable" and not all(host.startswith("/") for host, _ in self.hosts)

    def text(self) -> str:
        parameters = dict(self.parameters)
        if self.hosts:
            parameters["host"] = ",".join(host for host, _ in self.hosts)
            parameters["port"] = ",".join(str(port) for _, port in self.hosts)
        who = quote(self.user, safe="") if self.user is not None else ""
        if self.password is not None:
            who += f":{quote(self.password, safe='')}"
        query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
        return f"postgresql://{who}{'@' if who else ''}/{quote(self.database or '', safe='')}{query}"


def checked_dsn(text: str) -> str:
    """The same, once it is known to be usable: its parameters, and the files that they name."""
    dsn = parse_dsn(text)
    tls_context(dsn)
    return dsn.text()


def parse_dsn(text: str) -> Dsn:
    """Reads no file."""
    try:
        parts = urlsplit(text.strip())
    except ValueError as exc:
        raise _wrong("has a host in brackets that is no IPv6 address") from exc
    if parts.scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise _wrong("must begin with postgresql://")
    if parts.fragment or parts.netloc.count("@") > 1:
        raise _wrong("has a '#' or '@' in its user or password; write %23 or %40 instead")
    who, _, places = parts.netloc.rpartition("@")
    user, has_password, password = who.partition(":")
    given = _parameters(parts.query)
    hosts = _hosts(places, unquoted=False) if places else _hosts(given.get("host", ""), given.get("port", ""))
    database = unquote(parts.path.removeprefix("/")) or given.get("dbname") or given.get("database")
    parameters = {name: value for name, value in given.items() if name not in _OF_THE_ADDRESS}
    if len(hosts) > 1:
        # Moorage writes: of several servers it takes the one that lets it.
        parameters.setdefault("target_session_attrs", "read-write")
    return Dsn(
        user=unquote(user) or given.get("user"),
        password=unquote(password) if has_password else given.get("password"),
        database=database,
        hosts=hosts,
        parameters=parameters,
    )


def asyncpg_arguments(dsn: Dsn) -> dict[str, object]:
    """For `asyncpg.connect`. The files of its certificates are read anew each time: they may have been renewed."""
    left_out = _OF_LIBPQ_ALONE
    arguments: dict[str, object] = {}
    if dsn.never_plain and dsn.may_use_tls:
        arguments["ssl"] = tls_context(dsn)
        left_out |= _OF_TLS - {"sslnegotiation"}
    if dsn.hosts:
        # Apart from the rest, because it would take an IPv6 address among parameters for a host with a port.
        arguments |= {"host": [host for host, _ in dsn.hosts], "port": [port for _, port in dsn.hosts]}
    parameters = {name: value for name, value in dsn.parameters.items() if name not in left_out}
    return {"dsn": Dsn(dsn.user, dsn.password, dsn.database, (), parameters).text(), **arguments}


def tls_context(dsn: Dsn) -> ssl.SSLContext | None:
    """None: it is never spoken."""
    if not dsn.may_use_tls:
        return None
    of = dsn.parameters
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = _tls_version(of, "ssl_min_protocol_version", ssl.TLSVersion.TLSv1_2)
    context.maximum_version = _tls_version(of, "ssl_max_protocol_version", ssl.TLSVersion.MAXIMUM_SUPPORTED)
    context.set_alpn_protocols(["postgresql"])
    _trust(context, dsn)
    if "sslcert" in of:
        try:
            context.load_cert_chain(of["sslcert"], of.get("sslkey"), lambda: of.get("sslpassword", ""))
        except (OSError, ssl.SSLError) as exc:
            files = " and ".join(of[name] for name in ("sslcert", "sslkey") if name in of)
            raise _wrong(f"sslcert, sslkey: {files} cannot be used: {_reason(exc)}") from exc
    elif "sslkey" in of:
        raise _wrong("has an sslkey, and no sslcert that it belongs to")
    return context


def _trust(context: ssl.SSLContext, dsn: Dsn) -> None:
    root = dsn.parameters.get("sslrootcert")
    if root == _SYSTEM:
        if dsn.sslmode != "verify-full":
            raise _wrong(
                "sslrootcert=system goes with sslmode=verify-full alone: anybody can have a certificate"
            )
        context.load_default_certs()
    elif root is not None:
        _load(context, "sslrootcert", root)
    elif dsn.sslmode in _VERIFYING:
        raise _wrong(
            f"sslmode={dsn.sslmode} needs sslrootcert=FILE with the certificate of the server's authority; "
            "with sslmode=verify-full, sslrootcert=system takes those that this machine trusts"
        )
    if root is not None and dsn.never_plain:
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = dsn.sslmode == "verify-full"
    if "sslcrl" in dsn.parameters:
        _load(context, "sslcrl", dsn.parameters["sslcrl"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _load(context: ssl.SSLContext, name: str, file: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except (OSError, ssl.SSLError) as exc:
        raise _wrong(f"{name}: {file} cannot be used: {_reason(exc)}") from exc


def _parameters(query: str) -> dict[str, str]:
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as exc:
        raise _wrong("has parameters that are not name=value&name=value") from exc
    if "ssl" in given:
        # As JDBC and asyncpg write it.
        short = given.pop("ssl")
        given.setdefault("sslmode", "require" if short.lower() in _TRUE else short)
    known = _OF_THE_ADDRESS | _OF_TLS | _OF_THE_SESSION | _OF_LIBPQ_ALONE
    unknown = sorted(set(given) - known)
    if unknown:
        raise _wrong(f"has parameters that are not known here: {', '.join(unknown)}")
    if given.get("sslmode", "prefer") not in SSL_MODES:
        raise _wrong(f"sslmode={given['sslmode']} is none of {', '.join(SSL_MODES)}")
    if given.get("sslnegotiation", "postgres") not in ("postgres", "direct"):
        raise _wrong(f"sslnegotiation={given['sslnegotiation']} is neither postgres nor direct")
    session = given.get("target_session_attrs", "any")
    if session in _SESSIONS_THAT_READ:
        raise _wrong(f"target_session_attrs={session} is a server to read from, and Moorage writes")
    if session not in _SESSIONS:
        raise _wrong(f"target_session_attrs={session} is none of {', '.join(_SESSIONS)}")
    return given


def _hosts(hosts: str, ports: str = "", *, unquoted: bool = True) -> tuple[tuple[str, int], ...]:
    if not hosts:
        return ()
    names = hosts.split(",")
    of_ports = ports.split(",") if ports else []
    if len(of_ports) > 1 and len(of_ports) != len(names):
        raise _wrong(f"names {len(names)} hosts and {len(of_ports)} ports")
    found = []
    for at, one in enumerate(names):
        host, port = one, of_ports[at % len(of_ports)] if of_ports else ""
        if not unquoted:
            host, port = _host_and_port(one)
        if not host:
            raise _wrong("names a host that is empty")
        if port and not (port.isdigit() and 1 <= int(port) <= 65535):
            raise _wrong(f"has a port that is none: {port}")
        found.append((host, int(port or 5432)))
    return tuple(found)


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return unquote(host), port.removeprefix(":")
    host, _, port = text.partition(":")
    return unquote(host), port


def _tls_version(of: Mapping[str, str], name: str, usual: ssl.TLSVersion) -> ssl.TLSVersion:
    if name not in of:
        return usual
    try:
        return ssl.TLSVersion[of[name].replace(".", "_")]
    except KeyError as exc:
        raise _wrong(f"{name}={of[name]} is no version of TLS, such as TLSv1.2") from exc


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _wrong(what: str) -> SettingsError:
    return SettingsError(f"database_dsn {what}.")
