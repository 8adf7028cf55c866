"""`moor upgrade`: another version beside the one that runs, and back by itself where that does not work.

`release.py` says what a file is and puts its version into a folder of its own; `plan.py` (pure) says whether it may begin and what is to
be done; `changeover.py` does it, with `gate.py` after each role; `back.py` undoes it, whoever finds that it has to be: the command, the
next one, or `moor keep`. Between them stands one file, `journal.py`. Invariant: while that file is there, the version before is whole and
the way back needs no room on the disk; once it is gone, one version runs everything. Tables only grow, so nothing has to be restored.
"""
