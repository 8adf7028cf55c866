import base64
from datetime import timedelta

from moorage.webhooks.schedule import PAUSES, pause_after
from moorage.webhooks.signing import secret_text, signed_headers


def test_the_example_of_the_standard() -> None:
    """The values that the Standard Webhooks specification prints."""
    headers = signed_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_is_its_bytes() -> None:
    assert base64.b64decode(secret_text(b"\x01" * 32).removeprefix("whsec_")) == b"\x01" * 32


def test_pauses_grow_and_end() -> None:
    assert list(PAUSES) == sorted(PAUSES)
    assert pause_after(1) == timedelta(seconds=5)
    assert pause_after(len(PAUSES)) == PAUSES[-1]
    assert pause_after(len(PAUSES) + 1) is None
