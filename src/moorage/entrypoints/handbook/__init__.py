"""The handbook's reference, printed from the code: settings, commands, states, reasons, permissions, limits, events, metrics.

Nothing of it is kept in the repository, so nothing can drift. Where the code has no sentence about something, `words.py` fails
the build rather than leave a gap.
"""
