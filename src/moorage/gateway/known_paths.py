"""The methods and paths that a request's record names. Pure.

What a client writes into a path may be anybody's secret, so no path is logged as it came: only one that stands in this list,
which is the same for everybody. It is looked up once, as a whole, without what follows a question mark.
"""

KNOWN_MAP = "known.map"
PATH_IN_LOG = "%[var(txn.path)]"

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_APIS = (
    "audio/speech",
    "audio/transcriptions",
    "audio/translations",
    "chat/completions",
    "classify",
    "completions",
    "embeddings",
    "images/edits",
    "images/generations",
    "images/variations",
    "messages",
    "models",
    "moderations",
    "pooling",
    "rerank",
    "responses",
    "score",
)
"""What servers of models offer below /v1, or where we promise it, /api/v1."""
_OTHERS = (
    "/",
    "/detokenize",
    "/generate",
    "/health",
    "/healthz",
    "/metrics",
    "/ping",
    "/tokenize",
    "/version",
)

KNOWN = (*_METHODS, *(f"{base}/{api}" for base in ("/api/v1", "/v1") for api in _APIS), *_OTHERS)


def note_known(map_path: str) -> str:
    """For the log: of a request to a container, with nothing before its path any more, and before it becomes another."""
    return f"""\
    # What was asked for, where everybody may know that it exists. Nothing else of a path is kept.
    http-request set-var(txn.path) path,map_str({map_path})"""


def method_in_log(map_path: str) -> str:
    """A method stays what it was, so it is looked up when the line is written: that costs half of what a variable does."""
    return f"%[method,map_str({map_path})]"
