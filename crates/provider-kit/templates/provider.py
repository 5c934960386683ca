#!/usr/bin/env python3
"""An executable provider. Replace the body of `answer`; the rest is complete."""

import json
import sys
import time
from datetime import datetime, timezone

NAME = "minimal-provider"


def answer(request):
    """Yields the text of the answer, piece by piece, as soon as the model returns it."""
    yield "You said: "
    yield request["prompt"]


def healthy():
    """Returns the problem, or None. The caller waits five seconds."""
    return None


def model_of(request):
    return (request.get("config") or {}).get("model") or "echo-1"


def emit(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def generate(request):
    began = time.monotonic_ns()
    content = "".join(answer(request))
    emit({
        "content": content,
        "tokens_used": 0,
        "model": model_of(request),
        "latency": time.monotonic_ns() - began,
        "finish_reason": "stop",
        "error": "",
        "provider": NAME,
    })


def stream(request):
    content = ""

    def chunk(delta, done):
        now = datetime.now(timezone.utc).isoformat()
        emit({"content": content, "delta": delta, "done": done, "tokens_used": 0, "error": "", "timestamp": now})

    for piece in answer(request):
        content += piece
        chunk(piece, False)
    chunk("", True)


def read_request():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    if not isinstance(request, dict) or not isinstance(request.get("prompt"), str):
        raise ValueError("a JSON object with a `prompt` is wanted on standard input")
    return request


def main():
    command = sys.argv[-1] if len(sys.argv) > 1 else ""
    if command == "health":
        wrong = healthy()
        print(wrong or "OK", file=sys.stderr if wrong else sys.stdout)
        return 1 if wrong else 0
    if command == "--version":
        print(NAME, "0.1.0")
        return 0
    if command not in ("generate", "stream"):
        print(f"unknown command `{command}`: generate, stream and health are known", file=sys.stderr)
        return 2
    try:
        request = read_request()
    except ValueError as error:
        print(f"the request cannot be read: {error}", file=sys.stderr)
        return 2
    try:
        generate(request) if command == "generate" else stream(request)
    except BrokenPipeError:
        return 1
    except Exception as error:  # Report every failure to the caller.
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
