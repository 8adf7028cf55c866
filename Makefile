# `make up` and `make test` need a Debian or Ubuntu machine with Python 3.11 or newer, and nothing else.
