"""The database's address: what providers write is understood, what is wrong is said without the password."""

from pathlib import Path

import pytest

from moorage.kit.dsn import asyncpg_arguments, checked_dsn, parse_dsn
from moorage.kit.errors import SettingsError
from tests.certificates import write_certificate


@pytest.mark.parametrize(
    ("text", "hosts", "mode"),
    [
        ("postgresql://u:p@db.example.com/moorage", (("db.example.com", 5432),), "prefer"),
        ("postgres://u:p@db.example.com:6543/m?sslmode=require", (("db.example.com", 6543),), "require"),
        ("postgresql+asyncpg://u:p@h/m?ssl=true", (("h", 5432),), "require"),
        ("postgresql://u:p@h/m?sslmode=require&channel_binding=require", (("h", 5432),), "require"),
        (
            "postgresql://u:p@a:1,b:2/m?target_session_attrs=primary&sslmode=disable",
            (("a", 1), ("b", 2)),
            "disable",
        ),
        ("postgresql://u:p@[::1]:7,[fe80::2]/m", (("::1", 7), ("fe80::2", 5432)), "prefer"),
        ("postgresql://u:p@/m?host=/run/somewhere", (("/run/somewhere", 5432),), "prefer"),
        ("postgresql:///m?host=a,b&port=1&user=u&password=p", (("a", 1), ("b", 1)), "prefer"),
    ],
)
def test_what_providers_write(text: str, hosts: tuple[tuple[str, int], ...], mode: str) -> None:
    dsn = parse_dsn(text)
    assert (dsn.user, dsn.password, dsn.database) == ("u", "p", "moorage" if "/moorage" in text else "m")
    assert (dsn.hosts, dsn.sslmode) == (hosts, mode)
    assert parse_dsn(dsn.text()) == dsn
    # asyncpg would hand what it does not know to the server, which refuses it.
    assert "channel_binding" not in str(asyncpg_arguments(dsn)["dsn"])


def test_of_several_servers_one_that_can_be_written_to() -> None:
    assert parse_dsn("postgresql://a,b/m").parameters["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in parse_dsn("postgresql://a/m").parameters
    assert (
        parse_dsn("postgresql://a,b/m?target_session_attrs=any").parameters["target_session_attrs"] == "any"
    )


def test_a_password_with_everything_in_it() -> None:
    dsn = parse_dsn("postgresql://u%40x:p%40%2F%3A%23%3F%25@h/a%2Fb")
    assert (dsn.user, dsn.password, dsn.database) == ("u@x", "p@/:#?%", "a/b")
    assert parse_dsn(dsn.text()) == dsn


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mysql://u:s3cret@h/m", "must begin with postgresql://"),
        ("postgresql://u:s3cret@x@h/m", "write %23 or %40"),
        ("postgresql://u:s3cret#x@h/m", "write %23 or %40"),
        ("postgresql://u:s3cret@h:x/m", "a port that is none: x"),
        ("postgresql://u:s3cret@h,/m", "a host that is empty"),
        ("postgresql://u:s3cret@[::1/m", "in brackets"),
        ("postgresql:///m?host=a,b,c&port=1,2&password=s3cret", "3 hosts and 2 ports"),
        ("postgresql://u:s3cret@h/m?sslmode=on", "sslmode=on is none of disable, allow, prefer, require"),
        ("postgresql://u:s3cret@h/m?sslmod=require", "not known here: sslmod"),
        ("postgresql://u:s3cret@h/m?sslmode", "name=value"),
        ("postgresql://u:s3cret@h/m?target_session_attrs=standby", "Moorage writes"),
        ("postgresql://u:s3cret@h/m?target_session_attrs=best", "none of any, primary, read-write"),
        ("postgresql://u:s3cret@h/m?sslmode=verify-full", "needs sslrootcert=FILE"),
        ("postgresql://u:s3cret@h/m?sslmode=require&sslrootcert=system", "verify-full alone"),
        (
            "postgresql://u:s3cret@h/m?sslmode=verify-ca&sslrootcert=/no/such",
            "/no/such cannot be used: No such",
        ),
        ("postgresql://u:s3cret@h/m?sslmode=require&sslcert=/no/such", "/no/such cannot be used: No such"),
        ("postgresql://u:s3cret@h/m?sslmode=require&sslkey=/no/such", "no sslcert"),
        ("postgresql://u:s3cret@h/m?ssl_min_protocol_version=TLS9", "no version of TLS"),
        ("postgresql://u:s3cret@h/m?sslnegotiation=both", "neither postgres nor direct"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        checked_dsn(text)
    assert caught.value.message.startswith("database_dsn ")
    assert says in caught.value.message
    assert "s3cret" not in caught.value.message


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong.pem", tmp_path / "right.pem"
    wrong.write_text("nothing of the kind")
    write_certificate(right, "h")
    with pytest.raises(SettingsError, match=r"sslrootcert: .*wrong.pem cannot be used"):
        checked_dsn(f"postgresql://h/m?sslmode=verify-full&sslrootcert={wrong}")
    with pytest.raises(SettingsError, match=r"sslcert, sslkey: .*wrong.pem cannot be used"):
        checked_dsn(f"postgresql://h/m?sslmode=require&sslcert={right}&sslkey={wrong}")
    checked_dsn(f"postgresql://h/m?sslmode=verify-full&sslrootcert={right}&sslcert={right}")
    checked_dsn("postgresql://h/m?sslmode=verify-full&sslrootcert=system")
