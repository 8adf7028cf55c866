"""What HAProxy does at port 80: it answers the authority, and leads everybody else to HTTPS. Pure."""

from moorage.gateway.config import AcmeAnswers
from moorage.gateway.connection_shares import limit_connections, share_tables

ACME_CONNECTIONS = 500
_FRONTEND = "acme"
_CONNECTIONS_PER_SOURCE = 50
_ASKED = "/.well-known/acme-challenge/"


def acme_frontend(acme: AcmeAnswers) -> str:
    """An answer is the question and the account's thumbprint, so none is kept; a question of
    other characters than the standard's is none, and nothing that is asked comes back as anything but plain text."""
    leads = "\n".join(
        f"    http-request redirect prefix {origin} code 308 if {{ req.hdr(host),host_only,lower -m str {name} }}"
        for name, origin in acme.origins
    )
    return f"""\
frontend {_FRONTEND} from base
    bind {acme.listen}
{limit_connections(_FRONTEND, ACME_CONNECTIONS, _CONNECTIONS_PER_SOURCE)}
    option disable-h2-upgrade
    http-request return status 200 content-type text/plain lf-string "%[path,field(4,/)].{acme.thumbprint}" if METH_GET {{ path_reg ^{_ASKED}[A-Za-z0-9_-]{{16,128}}$ }}
{leads}
    http-request return status 404 content-type text/plain string "There is nothing here."

{share_tables(_FRONTEND, _CONNECTIONS_PER_SOURCE, speaks_http2=False)}"""
