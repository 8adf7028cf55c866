"""`python -m moorage.node`, as `moor-node`."""

from moorage.node.main import main

main()
