"""A transformer on a GPU behind an OpenAI-compatible API: Moorage's example that computes.

It has its API at /v1, as most model servers do; the setting `api_path = "/v1"` makes the promised /api/v1 reach it.

    POST /v1/chat/completions    a chat completion; `"stream": true` for server-sent events, one for each token
    GET  /v1/models              the one model there is
    GET  /health                 200
    GET  /gpus                   what this process can see of GPUs, each try with its outcome

Switches, all environment variables:

    PORT                    where to listen (8000)
    TORCH_DEVICE            cuda, or cpu (cuda where there is one)
    TORCH_SIZE              tiny, small, medium or large (small)
    TORCH_STEPS             how long the weights are trained (as the size says; 0 leaves them random)
    TORCH_MEMORY_HOG_GIB    allocate this much of the GPU's memory before listening, and keep it (0)

SIGTERM and SIGINT: no new connections, requests in flight are finished, exit code 0.
"""

import json
import os
import signal
import sys
import threading
import time
import uuid
from dataclasses import replace

import torch
from model import END, SIZES, Cache, trained
from text import harbour_text
from tries import tries
from wire import Listener, WireError

MODEL = "harbour-transformer"
MOST_TOKENS = 4096


class Generator:
    """Several conversations at a time take turns, token by token."""

    def __init__(self, model, device):
        self._model = model
        self._device = device
        self._turn = threading.Lock()

    @torch.inference_mode()
    def tokens(self, prompt, count, temperature):
        context = self._model.size.context
        count = min(count, context // 2)
        prompt = prompt[-(context - count) :]
        dtype = self._model.head.weight.dtype
        cache = Cache(self._model.size, self._device, dtype)
        fed = torch.tensor([list(prompt)], device=self._device)
        for _ in range(count):
            with self._turn:
                likely = self._model(fed, cache)[0, -1]
                if temperature > 0:
                    chosen = torch.multinomial((likely / temperature).softmax(-1), 1)
                else:
                    chosen = likely.argmax(-1, keepdim=True)
                token = int(chosen)
            fed = chosen.view(1, 1)
            yield token


class Application:
    def __init__(self, generator):
        self._generator = generator

    def handle(self, request, response):
        routes = {
            "/health": ("GET", lambda: response.send_json(200, {"status": "ok"})),
            "/gpus": ("GET", lambda: response.send_json(200, {"tries": tries()})),
            "/v1/models": ("GET", lambda: response.send_json(200, _models())),
            "/v1/chat/completions": ("POST", lambda: self._complete(request, response)),
        }
        method, answer = routes.get(request.path, (None, None))
        if answer is None:
            raise WireError(404, f"There is nothing at {request.path}.", "not_found")
        if request.method not in (method, "HEAD" if method == "GET" else method):
            raise WireError(405, f"Use {method} here.", "method_not_allowed")
        answer()

    def _complete(self, request, response):
        asked = _asked(request.body)
        prompt = "".join(f"{_name(one['role'])}: {one['content']}\n" for one in asked["messages"]) + "pilot:"
        count = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 128)
        tokens = self._generator.tokens(
            prompt.encode(), max(1, min(count, MOST_TOKENS)), float(asked.get("temperature") or 0)
        )
        if not asked.get("ignore_eos"):
            tokens = _until_end(tokens)
        identity = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": MODEL}
        if asked.get("stream"):
            self._stream(tokens, identity, response)
            return
        said = bytes(token for token in tokens if token != END)
        message = {"role": "assistant", "content": said.decode("utf-8", "replace").strip()}
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(said),
            "total_tokens": len(prompt) + len(said),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        response.send_json(
            200, {**identity, "object": "chat.completion", "choices": [choice], "usage": usage}
        )

    def _stream(self, tokens, identity, response):
        response.start_stream()
        head = {**identity, "object": "chat.completion.chunk"}
        for token in tokens:
            text = chr(token) if token < 128 and token != END else "\ufffd"
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            response.send_chunk(b"data: %b\n\n" % json.dumps({**head, "choices": [choice]}).encode())
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        response.send_chunk(b"data: %b\n\n" % json.dumps({**head, "choices": [end]}).encode())
        response.send_chunk(b"data: [DONE]\n\n")
        response.end_stream()


def _asked(body):
    try:
        asked = json.loads(body)
        for message in asked["messages"]:
            if not isinstance(message["content"], str) or not isinstance(message["role"], str):
                raise TypeError
    except (ValueError, KeyError, TypeError):
        raise WireError(400, "Send JSON with messages, each with role and content.") from None
    if not asked["messages"]:
        raise WireError(400, "Send at least one message.", param="messages")
    return asked


def _name(role):
    return "pilot" if role == "assistant" else "user"


def _until_end(tokens):
    for token in tokens:
        if token == END:
            return
        yield token


def _models():
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "moorage"}]}


def main():
    device = os.environ.get("TORCH_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    size = SIZES[os.environ.get("TORCH_SIZE") or "small"]
    if os.environ.get("TORCH_STEPS"):
        size = replace(size, steps=int(os.environ["TORCH_STEPS"]))
    say = lambda line: print(line, flush=True)  # noqa: E731
    began_s = time.monotonic()
    kept = []
    hog_gib = float(os.environ.get("TORCH_MEMORY_HOG_GIB") or 0)
    if hog_gib:
        kept.append(torch.ones(int(hog_gib * 2**30), dtype=torch.uint8, device=device))
    model = trained(size, harbour_text(), device, say=say)
    generator = Generator(model, device)
    list(generator.tokens(b"user: Hello!\npilot:", 8, 0))  # the first of everything is slow
    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    took_s = time.monotonic() - began_s
    say(
        f"torch: {model.parameters_count / 1e6:.0f} million parameters on {where}, ready after {took_s:.1f} s"
    )
    port = int(os.environ.get("PORT") or 8000)
    listener = Listener("0.0.0.0", port, Application(generator).handle, say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: listener.stop())
    say(f"torch: listens on port {listener.port}")
    listener.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
