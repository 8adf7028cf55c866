"""The real configurations of this folder, and what `transformers` counted of each.

A file holds the fields that sizes follow from, and the address where the whole configuration is published. They were written down,
not downloaded: a count that differs from a hub's own is a reason to look there first.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    facts["model"]: facts
    for facts in (json.loads(file.read_text()) for file in sorted((FOLDER / "configurations").glob("*.json")))
}
COUNTED: dict[str, int] = json.loads((FOLDER / "counted.json").read_text())["parameters"]


def config_of(model: str) -> dict[str, Any]:
    config: dict[str, Any] = CONFIGURATIONS[model]["config"]
    return config
