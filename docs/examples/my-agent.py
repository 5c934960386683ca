#!/usr/bin/env python3
"""A small agent: sends its prompt to a model, and prints the answer in the dialect `simple`."""

import json
import os
import sys
import urllib.error
import urllib.request


def emit(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def main():
    if "--version" in sys.argv:
        print("my-agent 0.1.0")
        return
    body = {
        "model": option("--model", "small-1"),
        "messages": [{"role": "user", "content": sys.stdin.read()}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Authorization": "Bearer " + os.environ["MY_AGENT_KEY"], "Content-Type": "application/json"}
    url = os.environ["MY_AGENT_URL"] + "/chat/completions"
    usage, ended = {}, False
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as response:
        for line in response:
            ended = ended or line.startswith(b"data: [DONE]")
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                if choice["delta"].get("content"):
                    emit("text", delta=choice["delta"]["content"])
    if not ended:
        raise ConnectionError("connection closed before the end of the answer")
    emit("done", usage=usage)


try:
    main()
except urllib.error.HTTPError as error:
    emit("error", error=f"{error.code} {error.read().decode()}")
    sys.exit(1)
except OSError as error:
    emit("error", error=str(error))
    sys.exit(1)
