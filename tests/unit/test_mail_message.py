from datetime import UTC, datetime
from email import message_from_bytes

from moorage.notifications.message import Mail, as_html, compose

MAIL = Mail(
    "mail_1",
    "ann@example.com",
    "123456 is your Moorage code",
    "Enter this code to sign in:\n\n    123456\n\nIt works for 10 minutes. Or open http://127.0.0.1:8080/x?a=1&b=2.\n",
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)


def test_both_parts_and_headers() -> None:
    message = compose(MAIL, "moorage@example.org", "example.org")
    assert message["To"] == "ann@example.com"
    assert message["From"] == "moorage@example.org"
    assert message["Message-ID"] == "<mail_1@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    plain = message.get_body(("plain",))
    assert plain is not None
    assert plain.get_content() == MAIL.text


def test_html_shows_code_and_link() -> None:
    shown = as_html(MAIL.subject, MAIL.text)
    assert ">123456</p>" in shown
    assert '<a href="http://127.0.0.1:8080/x?a=1&amp;b=2"' in shown, "the full stop is not part of the link"


def test_hostile_names_are_inert() -> None:
    shown = as_html("<script>", 'You are invited to <img src=x onerror=alert(1)> "a" https://x.example/"><b>')
    assert "<script>" not in shown
    assert "<img" not in shown
    assert "<b>" not in shown


def test_a_line_break_in_a_subject_adds_no_header() -> None:
    hostile = Mail("mail_2", "ann@example.com", "Hello\r\nBcc: eve@example.com", "x", MAIL.created_at)
    message = compose(hostile, "a@b.example", "b.example")
    assert message["Subject"] == "Hello Bcc: eve@example.com"
    assert message_from_bytes(message.as_bytes())["Bcc"] is None
