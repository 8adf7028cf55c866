"""The stand-ins that the benchmark of caches brings along: what was interrupted is continued, what is there is not fetched again."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
BYTES = 4 * 2**20


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, str]]:
    monkeypatch.syspath_prepend(str(BENCH))
    import cache_client
    import cache_hub

    server = cache_hub.serve(BYTES, ("127.0.0.1", 0))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield cache_client, cache_hub, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    serving.join()
    server.server_close()
    for name in ("cache_client", "cache_hub"):
        sys.modules.pop(name)


def served(client: Any, url: str) -> int:
    import json
    import urllib.request

    with urllib.request.urlopen(f"{url}/served") as answer:
        found = int(json.load(answer)["bytes"])
    urllib.request.urlopen(urllib.request.Request(f"{url}/served", method="POST")).close()
    return found


def test_a_second_start_fetches_nothing_and_an_interrupted_one_goes_on(
    hub: tuple[Any, Any, str], tmp_path: Path
) -> None:
    client, stand_in, url = hub
    files = client.fetched(url, stand_in.MODEL, tmp_path)
    total = sum(one.stat().st_size for one in files)
    assert served(client, url) == total == client.loaded_bytes(files)
    client.fetched(url, stand_in.MODEL, tmp_path)
    assert served(client, url) == 0

    whole = files[-1].resolve()
    content = whole.read_bytes()
    whole.rename(whole.with_name(f"{whole.name}.incomplete"))
    incomplete = whole.with_name(f"{whole.name}.incomplete")
    incomplete.write_bytes(content[:1000])
    assert client.fetched(url, stand_in.MODEL, tmp_path) == files
    assert served(client, url) == len(content) - 1000
    assert whole.read_bytes() == content
    assert not incomplete.exists()

    whole.write_bytes(content[:-1])
    client.fetched(url, stand_in.MODEL, tmp_path)
    assert whole.read_bytes() == content, "what is too short is fetched again"
