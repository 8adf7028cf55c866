"""Makes containers true: load → observe → plan → apply → engine calls, one container at a time.

`reconciler.py` reads as that recipe. `repository.py` is its SQL, `operations.py` the engine calls that take
longer than a pass may, `probe.py` the health check, `sweep.py` the comparison of everything with everything.
"""
