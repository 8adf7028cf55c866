"""Files of the repository that an installation hands on: the example's sources, and what a machine that joins is built from.

A checkout has them in their places. A wheel brings them below `moorage/shipped`, by the same names (`deploy/packages/wheel.py` says which).
"""

from pathlib import Path

import moorage

_PACKAGE = Path(moorage.__file__).parent
_CHECKOUT = _PACKAGE.parents[1]
_WHEEL = _PACKAGE / "shipped"


def shipped_root() -> Path:
    """Below it, each file has the name that it has in the repository."""
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else _WHEEL
