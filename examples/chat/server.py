"""A small OpenAI-compatible chat server: Moorage's example, and its test suite's best friend.

It needs Python's standard library only. It speaks HTTP/1.1 on plain sockets, one thread for each
connection, because `http.server` alone doubles the time from the process's start to its first answer.

    POST /api/v1/chat/completions (also /v1/...)   a chat completion; `"stream": true` for server-sent events
    GET  /api/v1/models (also /v1/...)             the one model there is
    GET  /health                                   200
    GET  /whoami                                   host name, process id, names (never values) of the environment
    any  /echo                                     the request as it arrived: method, path, headers, body
    GET  /sse?n=10&delay_ms=0                      n numbered events

Switches, all environment variables. A value that makes no sense is one line on stderr and exit code 2.

    PORT                      where to listen (8000; 0 picks a free port and prints it)
    CHAT_BIND                 on which address (0.0.0.0)
    CHAT_START_DELAY_S        wait this long before listening (0)
    CHAT_CRASH                `at-start`: exit before listening; a number: exit that many seconds after the start
    CHAT_EXIT_CODE            the exit code of that crash (1)
    CHAT_MEMORY_HOG_MB        allocate and touch this much memory before listening, and keep it (0)
    CHAT_HEALTH_STATUS        the status of /health (200)
    CHAT_HEALTH_HANG          `1`: /health accepts the request and never answers (0)
    CHAT_V1_ONLY              `1`: nothing is at /api/v1, as with most model servers (0)
    CHAT_TOKEN_DELAY_MS       time each token takes, streamed or not (0)
    CHAT_LOG_LINES            print this many numbered lines at the start (0)
    CHAT_FAIL_AFTER_REQUESTS  answer 500 to everything, /health included, once this many requests other than
                              /health were answered (never)

SIGTERM and SIGINT: no new connections, requests in flight are finished, exit code 0.
"""

import json
import os
import signal
import socket
import sys
import threading
import time

from wire import Listener, Request, Response, WireError

MODEL = "harbour-pilot"
MAX_EVENTS = 100_000
stopping = threading.Event()


class Switches:
    """The environment, read and checked once, before anything else happens."""

    def __init__(self, environment):
        self._environment = environment
        self.port = self._number("PORT", 8000, 0, 65535)
        self.bind = environment.get("CHAT_BIND") or "0.0.0.0"
        self.start_delay_s = self._number("CHAT_START_DELAY_S", 0, 0, 86400, float)
        self.crash_at_start = environment.get("CHAT_CRASH") == "at-start"
        self.crash_after_s = None
        if environment.get("CHAT_CRASH") and not self.crash_at_start:
            self.crash_after_s = self._number("CHAT_CRASH", 0, 0, 86400, float, "`at-start` or ")
        self.exit_code = self._number("CHAT_EXIT_CODE", 1, 0, 255)
        self.memory_hog_mb = self._number("CHAT_MEMORY_HOG_MB", 0, 0, 1_000_000)
        self.health_status = self._number("CHAT_HEALTH_STATUS", 200, 200, 599)
        self.health_hang = self._number("CHAT_HEALTH_HANG", 0, 0, 1) == 1
        self.v1_only = self._number("CHAT_V1_ONLY", 0, 0, 1) == 1
        self.token_delay_s = self._number("CHAT_TOKEN_DELAY_MS", 0, 0, 600_000, float) / 1000
        self.log_lines = self._number("CHAT_LOG_LINES", 0, 0, 100_000_000)
        self.fail_after_requests = self._number("CHAT_FAIL_AFTER_REQUESTS", None, 0, 1_000_000_000)

    def _number(self, name, default, least, most, kind=int, alternative=""):
        text = self._environment.get(name, "")
        if text == "":
            return default
        noun = "a whole number" if kind is int else "a number"
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise ValueError(f"{name} must be {alternative}{noun} from {least} to {most}, not {text!r}")
        return value


class ChatApplication:
    """Answers one request at a time per connection; `handle` is called from many threads."""

    def __init__(self, switches):
        self._switches = switches
        self._lock = threading.Lock()
        self._answered = 0

    def handle(self, request: Request, response: Response) -> None:
        limit = self._switches.fail_after_requests
        with self._lock:
            failing = limit is not None and self._answered >= limit
            self._answered += request.path != "/health"
        if failing:
            raise WireError(500, "This server fails now, as CHAT_FAIL_AFTER_REQUESTS asks.")
        path = request.path
        if path.startswith("/api/v1/") and not self._switches.v1_only:
            path = path.removeprefix("/api")
        if path == "/echo" or path.startswith("/echo/"):
            self._echo(request, response)
            return
        routes = {
            "/health": ("GET", self._health),
            "/whoami": ("GET", self._whoami),
            "/sse": ("GET", self._events),
            "/v1/models": ("GET", self._models),
            "/v1/chat/completions": ("POST", self._completions),
        }
        method, handler = routes.get(path, (None, None))
        if handler is None:
            raise WireError(404, f"There is nothing at {request.path}.", "not_found")
        if request.method != method and (request.method, method) != ("HEAD", "GET"):
            allow = ("Allow", "POST" if method == "POST" else "GET, HEAD")
            raise WireError(405, f"Use {method} here.", "method_not_allowed", headers=[allow])
        handler(request, response)

    def _health(self, request, response):
        if self._switches.health_hang:
            stopping.wait()  # ends with the process, so that a stop is still clean
        response.send_json(self._switches.health_status, {"status": self._switches.health_status})

    def _whoami(self, request, response):
        whoami = {
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "environment_names": sorted(os.environ),
        }
        response.send_json(200, whoami)

    def _echo(self, request, response):
        # Pairs, not an object: whoever tests a proxy wants to see a header that came twice.
        headers = [[name, value] for name, value in request.headers]
        body = request.body.decode("utf-8", "replace")
        seen = {"method": request.method, "path": request.target, "headers": headers, "body": body}
        response.send_json(200, seen)

    def _events(self, request, response):
        query = dict(part.partition("=")[::2] for part in request.query.split("&"))
        try:
            count, delay_ms = int(query.get("n", "10")), float(query.get("delay_ms", "0"))
        except ValueError:
            count = delay_ms = -1
        if not (0 <= count <= MAX_EVENTS and 0 <= delay_ms <= 600_000):
            raise WireError(400, f"n must be 0 to {MAX_EVENTS} and delay_ms 0 to 600000", "invalid_value")
        response.start_stream()
        for number in range(1, count + 1):
            if delay_ms and number > 1:
                time.sleep(delay_ms / 1000)
            # The monotonic clock is one for the whole machine: a client there can measure the way.
            event = json.dumps({"n": number, "monotonic_ns": time.monotonic_ns()})
            response.send_chunk(f"id: {number}\ndata: {event}\n\n".encode())
        response.end_stream()

    def _models(self, request, response):
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "moorage"}
        response.send_json(200, {"object": "list", "data": [model]})

    def _completions(self, request, response):
        asked = parse_completion_request(request.body)
        pieces = reply_pieces(last_user_text(asked["messages"]))
        limit = asked.get("max_completion_tokens") or asked.get("max_tokens") or len(pieces)
        finish_reason = "stop" if limit >= len(pieces) else "length"
        pieces = pieces[:limit]
        prompt_tokens = sum(len(text_of(message).split()) for message in asked["messages"])
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(pieces),
            "total_tokens": prompt_tokens + len(pieces),
        }
        common = {
            "id": f"chatcmpl-{os.urandom(12).hex()}",
            "object": "chat.completion.chunk" if asked.get("stream") else "chat.completion",
            "created": int(time.time()),
            "model": asked.get("model") or MODEL,
        }
        if asked.get("stream"):
            options = asked.get("stream_options") or {}
            tail_usage = usage if options.get("include_usage") else None
            self._stream_completion(response, common, pieces, finish_reason, tail_usage)
            return
        for _ in pieces:
            self._spend_token_time()
        message = {"role": "assistant", "content": "".join(pieces), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        response.send_json(200, {**common, "choices": [choice], "usage": usage})

    def _stream_completion(self, response, common, pieces, finish_reason, usage):
        def send(delta, reason=None):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            response.send_chunk(event_of({**common, "choices": [choice]}))

        response.start_stream()
        send({"role": "assistant", "content": ""})
        for piece in pieces:
            self._spend_token_time()
            send({"content": piece})
        send({}, finish_reason)
        if usage is not None:
            response.send_chunk(event_of({**common, "choices": [], "usage": usage}))
        response.send_chunk(b"data: [DONE]\n\n")
        response.end_stream()

    def _spend_token_time(self):
        if self._switches.token_delay_s:
            time.sleep(self._switches.token_delay_s)


def parse_completion_request(body):
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise WireError(400, "The body is not valid JSON.", "invalid_json") from None
    if not isinstance(asked, dict):
        raise WireError(400, "The body must be a JSON object.", "invalid_json")
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages:
        raise WireError(
            400, "`messages` must be a list with at least one message.", "invalid_value", "messages"
        )
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise WireError(400, "Each message must be an object with a `role`.", "invalid_value", "messages")
        if not isinstance(message.get("content"), str | list | None):
            raise WireError(400, "`content` must be text or a list of parts.", "invalid_value", "messages")
    for name in ("max_tokens", "max_completion_tokens"):
        value = asked.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise WireError(400, f"`{name}` must be a whole number above zero.", "invalid_value", name)
    for name, kind in (("model", str), ("stream", bool), ("stream_options", dict)):
        if not isinstance(asked.get(name), kind | None):
            raise WireError(400, f"`{name}` has the wrong type.", "invalid_value", name)
    if asked.get("n") not in (None, 1):
        raise WireError(400, "One choice is all this example gives: leave `n` at 1.", "invalid_value", "n")
    return asked


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return " ".join(part for part in parts if isinstance(part, str))


def last_user_text(messages):
    return next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")


def reply_pieces(heard):
    """The same words always get the same answer; joined, the pieces are the whole of it."""
    words = heard.split()
    quote = " ".join(words[:40]) + (" …" if len(words) > 40 else "")
    said = f"I hear you: “{quote}”." if words else "I hear nothing but gulls; send me a message."
    reply = (
        f"Harbour pilot here. {said} Steady as she goes: your words came in through the gateway and mine go out "
        "the same way. I am Moorage's example, not a model; moor a real one in my berth when you are ready."
    )
    first, *others = reply.split(" ")
    return [first, *(" " + word for word in others)]


def event_of(payload):
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    try:
        switches = Switches(os.environ)
    except ValueError as problem:
        sys.stderr.write(f"chat: {problem}\n")
        return 2
    for number in range(1, switches.log_lines + 1):
        say(f"line {number} of {switches.log_lines}")
    if switches.crash_at_start:
        sys.stderr.write(f"chat: crashing at start with exit code {switches.exit_code}, as CHAT_CRASH asks\n")
        return switches.exit_code
    if switches.crash_after_s is not None:
        timer = threading.Timer(switches.crash_after_s, os._exit, [switches.exit_code])
        timer.daemon = True
        timer.start()
    # Process 1 of a container ignores signals that have no handler, so set them before anything slow.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    # A repeated byte is written page by page; zeroed memory would only be promised by the kernel.
    hog = [b"\x01" * (1 << 20) for _ in range(switches.memory_hog_mb)]
    time.sleep(switches.start_delay_s)
    try:
        listener = Listener(switches.bind, switches.port, ChatApplication(switches).handle, say)
    except OSError as problem:
        sys.stderr.write(f"chat: cannot listen on {switches.bind}:{switches.port}: {problem.strerror}\n")
        return 2

    def stop(*_):
        stopping.set()
        listener.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    say(f"chat: listening on {switches.bind}:{listener.port}")
    listener.serve()
    say("chat: stopped")
    del hog
    return 0


if __name__ == "__main__":
    sys.exit(main())
