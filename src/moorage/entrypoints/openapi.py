"""Prints the API's description: `python -m moorage.entrypoints.openapi`. The console's client is generated from it."""

import json
import sys
import tempfile
from pathlib import Path

from moorage.entrypoints.api import create_app
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        # Nothing is connected to: the description is made from the routes alone.
        database = Database("postgresql://nobody@localhost/nothing", pool_size=2)
        app = create_app(Settings(home=Path(home)), database, Keyring(((b"none", b"\x00" * 32),)))
        json.dump(app.openapi(), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
