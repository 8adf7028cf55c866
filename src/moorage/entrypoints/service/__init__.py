"""Moorage as a service of its machine: what `moor install` makes, what keeps it running, and how it goes away again.

`places.py` says where everything is, `units.py` and `settings_file.py` what is written, `plan.py` what is still to be done, all pure;
`facts.py` looks, `steps.py` does it. `upgrade/` goes to another version, for which `readiness.py` says whether a role of this one serves. Invariant: a second `moor install` repairs what differs and touches nothing else; what the
operator wrote is never overwritten.
"""
