"""HTTP/1.1 on plain sockets: what the example server needs of it, and no more.

Keep-alive, pipelining, bodies by Content-Length or chunked, `Expect: 100-continue`, streamed answers. One thread
for each connection. A request that two parsers could read in two ways is refused.
"""

import json
import socket
import threading
import time

MAX_LINE_BYTES = 16 << 10
MAX_HEADERS = 100
MAX_BODY_BYTES = 32 << 20
ACCEPT_TIMEOUT_S = 1.0
IDLE_TIMEOUT_S = 75
LINGER_S = 1
LINGER_BYTES = 4 << 20
PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class WireError(Exception):
    """Becomes an answer, in the shape that OpenAI clients read."""

    def __init__(self, status, message, code=None, param=None, headers=()):
        super().__init__(message)
        self.status = status
        self.headers = headers
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Request:
    def __init__(self, method, target, version, headers):
        self.method = method
        self.target = target
        self.path, _, self.query = target.partition("?")
        self.version = version
        self.headers = headers
        self.body = b""

    def header_values(self, name):
        return [value for known, value in self.headers if known.lower() == name]

    def has_token(self, name, token):
        values = ",".join(self.header_values(name)).lower().split(",")
        return token in [value.strip() for value in values]


class Response:
    """One answer. Whoever handles the request calls `send_json`, or `start_stream` and what follows it."""

    def __init__(self, connection, request, keep_alive):
        self._connection = connection
        self._head_only = request is not None and request.method == "HEAD"
        self._chunked = request is not None and request.version == "HTTP/1.1"
        self.keep_alive = keep_alive
        self.status = 0

    def send_json(self, status, payload, headers=()):
        body = json.dumps(payload).encode()
        fields = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers]
        self._connection.sendall(self._head(status, fields) + (b"" if self._head_only else body))

    def start_stream(self):
        fields = [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-store")]
        if self._chunked:
            fields.append(("Transfer-Encoding", "chunked"))
        else:
            self.keep_alive = False  # HTTP/1.0: the end of the connection is the end of the answer
        self._connection.sendall(self._head(200, fields))

    def send_chunk(self, data):
        if self._head_only:
            return
        self._connection.sendall(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end_stream(self):
        if self._chunked and not self._head_only:
            self._connection.sendall(b"0\r\n\r\n")

    def _head(self, status, fields):
        self.status = status
        fields.append(("Connection", "keep-alive" if self.keep_alive else "close"))
        lines = [f"HTTP/1.1 {status} {PHRASES.get(status, 'Status')}", *(f"{n}: {v}" for n, v in fields)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Listener:
    """Accepts until `stop`, then lets the requests in flight finish."""

    def __init__(self, address, port, handle, log):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((address, port))
        self._socket.listen(1024)
        # Python runs a signal's handler between two steps of its own: of one that arrives just before accept() begins to
        # wait, it would hear with the next connection.
        self._socket.settimeout(ACCEPT_TIMEOUT_S)
        self.port = self._socket.getsockname()[1]
        self._handle = handle
        self._log = log
        # Reentrant, because `stop` runs in a signal handler, on top of whatever the main thread was doing.
        self._lock = threading.RLock()
        self._idle = set()
        self._threads = set()
        self._stopping = False

    def serve(self):
        while not self._stopping:
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as problem:
                if self._stopping:
                    break
                self._log(f"chat: cannot accept: {problem}")
                time.sleep(0.05)  # out of file descriptors: give the others time to close theirs
                continue
            self._start_thread(connection)
        self._socket.close()
        while True:
            with self._lock:
                thread = next(iter(self._threads), None)
            if thread is None:
                return
            thread.join()

    def stop(self):
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            for connection in self._idle:
                end_input(connection)
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept()

    def _start_thread(self, connection):
        thread = threading.Thread(target=self._serve_connection, args=[connection])
        with self._lock:
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as problem:  # the limit on processes is reached: this client has to come again
            self._log(f"chat: {problem}")
            connection.close()
            with self._lock:
                self._threads.discard(thread)

    def _serve_connection(self, connection):
        reader = connection.makefile("rb")
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(IDLE_TIMEOUT_S)
            while self._serve_request(connection, reader):
                pass
            linger(connection)
        except OSError:
            pass  # the other side left; there is nobody to tell
        finally:
            reader.close()
            connection.close()
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _serve_request(self, connection, reader):
        """Answer one request; True if the connection can carry another."""
        with self._lock:
            if self._stopping:
                end_input(connection)
            self._idle.add(connection)
        try:
            first_line = reader.readline(MAX_LINE_BYTES)
        finally:
            with self._lock:
                self._idle.discard(connection)
        if not first_line:
            return False
        started_s = time.monotonic()
        request, response, outcome = None, Response(connection, None, keep_alive=False), ""
        try:
            request = read_head(first_line, reader)
            read_body(request, connection, reader)
            response = Response(connection, request, wants_keep_alive(request) and not self._stopping)
            self._handle(request, response)
        except WireError as problem:
            response.send_json(problem.status, problem.body, problem.headers)
        except OSError:
            response.keep_alive, outcome = False, " (client left)"
        name = f"{request.method} {request.target}" if request else "unreadable request"
        elapsed_ms = (time.monotonic() - started_s) * 1000
        self._log(f"{ascii(name)[1:-1]} {response.status} {elapsed_ms:.1f}ms{outcome}")
        return response.keep_alive


def end_input(connection):
    """What has arrived can still be read and is answered; after it comes the end of the stream."""
    try:
        connection.shutdown(socket.SHUT_RD)
    except OSError:
        return  # the client was faster


def linger(connection):
    """Read a little of what a refused client is still sending: to close over unread bytes is to reset the
    connection, and a reset takes the answer away from the client."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(LINGER_S)
    unread_bytes = LINGER_BYTES
    while unread_bytes > 0 and (data := connection.recv(65536)):
        unread_bytes -= len(data)


def read_head(first_line, reader):
    parts = first_line.rstrip(b"\r\n").decode("latin-1").split(" ")
    if not first_line.endswith(b"\n") or len(parts) != 3 or not all(parts):
        raise WireError(400, "The request line cannot be read.")
    method, target, version = parts
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise WireError(505, "This server speaks HTTP/1.1.")
    headers = []
    while True:
        line = reader.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n") or len(headers) > MAX_HEADERS:
            raise WireError(431, "The headers are too long or cut off.")
        if line in (b"\r\n", b"\n"):
            return Request(method, target, version, headers)
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise WireError(400, "A header line cannot be read.")
        headers.append((name, value.strip()))


def read_body(request, connection, reader):
    lengths, codings = request.header_values("content-length"), request.header_values("transfer-encoding")
    if codings and (lengths or [coding.lower() for coding in codings] != ["chunked"]):
        raise WireError(400 if lengths else 501, "Send the body chunked, or with one Content-Length.")
    if len(lengths) > 1 or (lengths and not (lengths[0].isascii() and lengths[0].isdigit())):
        raise WireError(400, "Content-Length must be one number.")
    if (lengths or codings) and request.has_token("expect", "100-continue"):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if codings:
        request.body = read_chunks(reader)
    elif lengths:
        request.body = read_exactly(reader, int(lengths[0]))


def read_chunks(reader):
    body = bytearray()
    while True:
        digits = reader.readline(MAX_LINE_BYTES).partition(b";")[0].strip()
        if not digits or digits.lower().strip(b"0123456789abcdef"):
            raise WireError(400, "A chunk's size cannot be read.")
        size = int(digits, 16)
        if size == 0:
            break
        body += read_exactly(reader, size, already_bytes=len(body))
        if reader.readline(3) not in (b"\r\n", b"\n"):
            raise WireError(400, "A chunk does not end where it said.")
    for _ in range(MAX_HEADERS):
        if reader.readline(MAX_LINE_BYTES) in (b"\r\n", b"\n"):
            return bytes(body)
    raise WireError(400, "The trailer is too long or cut off.")


def read_exactly(reader, size, already_bytes=0):
    if already_bytes + size > MAX_BODY_BYTES:
        raise WireError(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    data = reader.read(size)
    if len(data) < size:
        raise ConnectionResetError("the body was cut off")
    return data


def wants_keep_alive(request):
    if request.version == "HTTP/1.0":
        return request.has_token("connection", "keep-alive")
    return not request.has_token("connection", "close")
