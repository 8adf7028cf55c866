"""Prints the API's description: `python -m moorage.entrypoints.openapi`. Clients are generated from it."""

import json
import sys

from moorage.entrypoints.api import described_routes
from moorage.entrypoints.description.document import describe


def main() -> None:
    json.dump(describe(described_routes()), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
