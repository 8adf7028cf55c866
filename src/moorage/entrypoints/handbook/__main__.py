"""`python -m moorage.entrypoints.handbook FOLDER` writes the pages; `scripts/handbook build` calls it."""

import sys
from pathlib import Path

from moorage.entrypoints.handbook.pages import PAGES


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
