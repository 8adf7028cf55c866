"""`moor`, the command line of Moorage: a client of the public HTTP API and nothing more."""
