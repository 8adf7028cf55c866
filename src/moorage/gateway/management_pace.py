"""How much one source may ask of the API, so that what is too much is refused before it costs the API anything. Pure.

The API computes on one thread: a thousand requests that it only refuses still stand in front of everybody else's. HAProxy
refuses them for a fiftieth of the price. Answers that go on for minutes are counted by themselves, or those of a few
pages would leave no room for anything else.
"""

from moorage.gateway.connection_shares import AT_ONCE_COUNTER, LASTING_COUNTER, RATE_COUNTER, SOURCE

_WINDOW_S = 10
_LASTING = ("/stream", "/events", "/download")
"""How the paths of such answers end."""


def limit_pace(frontend: str, per_s: int | None, at_once: int | None, answer: str) -> str:
    """The lines of a frontend. What was refused counts as well: whoever does not slow down gets nothing."""
    lines = []
    if per_s is not None:
        lines.append(
            f"""\
    http-request track-sc{RATE_COUNTER} {SOURCE} table {frontend}_rates
    http-request return status 429 {answer} hdr Retry-After {_WINDOW_S} if {{ sc_http_req_rate({RATE_COUNTER}) gt {per_s * _WINDOW_S} }}"""
        )
    if at_once is not None:
        lines.append(
            f"""\
    acl lasting path_end {" ".join(_LASTING)}
    http-request track-sc{AT_ONCE_COUNTER} {SOURCE} table {frontend}_at_once unless lasting
    http-request track-sc{LASTING_COUNTER} {SOURCE} table {frontend}_lasting if lasting
    http-request return status 429 {answer} hdr Retry-After 1 if {{ sc_conn_cur({AT_ONCE_COUNTER}) gt {at_once} }}
    http-request return status 429 {answer} hdr Retry-After 5 if {{ sc_conn_cur({LASTING_COUNTER}) gt {at_once} }}"""
        )
    return "".join(f"{line}\n" for line in lines)


def pace_tables(frontend: str, per_s: int | None, at_once: int | None) -> str:
    """That those lines count in."""
    tables = []
    if per_s is not None:
        tables.append((f"{frontend}_rates", f"http_req_rate({_WINDOW_S}s)"))
    if at_once is not None:
        tables += [(f"{frontend}_at_once", "conn_cur"), (f"{frontend}_lasting", "conn_cur")]
    return "".join(
        f"backend {name} from base\n    stick-table type ipv6 size 100k expire 1m store {what}\n\n"
        for name, what in tables
    )
