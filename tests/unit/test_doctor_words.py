"""What a person is told about a container's network."""

from dataclasses import replace

import pytest

from moorage.containers.doctor.words import summary
from moorage.engines.base import ListeningSocket
from moorage.engines.diagnosis import Attempt, NameAnswer, NetworkDiagnosis, Outcome

WELL = NetworkDiagnosis(
    resolvers=("127.0.0.11",),
    upstream_resolvers=("1.1.1.1", "8.8.8.8"),
    names=(NameAnswer("huggingface.co", ("18.0.0.1",), None),),
    outbound=(Attempt("1.1.1.1", 443, Outcome.CONNECTED),),
    forbidden=(Attempt("169.254.169.254", 80, Outcome.TIMED_OUT),),
)
NO_NAMES = replace(WELL, names=(NameAnswer("huggingface.co", (), "127.0.0.11 did not answer within 4 s"),))
NO_WAY_OUT = replace(NO_NAMES, outbound=(Attempt("1.1.1.1", 443, Outcome.TIMED_OUT),))
OPEN_DOOR = replace(WELL, forbidden=(Attempt("169.254.169.254", 80, Outcome.REFUSED),))
SOCKET = ListeningSocket("0.0.0.0", 8000)


@pytest.mark.parametrize(
    ("found", "listening", "port", "said"),
    [
        (WELL, (SOCKET,), 8000, "Names resolve. 1.1.1.1:443 answers. Listening: 0.0.0.0 port 8000."),
        (WELL, (), 8000, "Names resolve. 1.1.1.1:443 answers. Nothing listens on port 8000."),
        (WELL, (), None, "Names resolve. 1.1.1.1:443 answers. Nothing listens."),
        (
            WELL,
            (SOCKET,),
            9000,
            "Names resolve. 1.1.1.1:443 answers. Listening: 0.0.0.0 port 8000, but nothing on port 9000.",
        ),
        (
            NO_NAMES,
            (SOCKET,),
            8000,
            (
                "huggingface.co does not resolve: 127.0.0.11 did not answer within 4 s (which asks 1.1.1.1, 8.8.8.8). "
                "1.1.1.1:443 answers. Listening: 0.0.0.0 port 8000."
            ),
        ),
        (
            NO_WAY_OUT,
            (SOCKET,),
            8000,
            (
                "huggingface.co does not resolve: 127.0.0.11 did not answer within 4 s (which asks 1.1.1.1, 8.8.8.8). "
                "1.1.1.1:443 does not answer. Public addresses are allowed, so the machine itself cannot reach the internet. "
                "Ask the operator. Listening: 0.0.0.0 port 8000."
            ),
        ),
        (
            OPEN_DOOR,
            (SOCKET,),
            8000,
            (
                "Names resolve. 1.1.1.1:443 answers. 169.254.169.254:80 can be reached but must not be. "
                "Tell the operator. Listening: 0.0.0.0 port 8000."
            ),
        ),
    ],
)
def test_summary(
    found: NetworkDiagnosis, listening: tuple[ListeningSocket, ...], port: int | None, said: str
) -> None:
    assert summary(found, listening, port) == said
