"""python -m tests.machines.community [FOLDER]

FOLDER keeps the Debian that the machines are copies of, which takes a minute or two to make, for the next time.
"""

import os
import sys
from pathlib import Path

from tests.machines.community.story import tell

if os.geteuid() != 0:
    sys.exit("needs root, for network namespaces and root filesystems")
tell(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else None)
