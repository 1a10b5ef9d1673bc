"""A small server that speaks the endpoints of SGLang's HTTP API that a rollout uses, and generates with a real model.

Like SGLang it keeps the keys and values of prompts until it is told to flush them, names its weights in every answer,
stops at `stop_token_ids` unless `ignore_eos` is set, and sends null where a log-probability is not a number.

Usage: python sglang_like.py --model-path DIR --host HOST --port PORT [other arguments of the real server, ignored]
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

ALLOWED = {
    "/generate": {
        "input_ids",
        "sampling_params",
        "return_logprob",
        "logprob_start_len",
        "top_logprobs_num",
        "stream",
    },
    "/update_weights_from_disk": {"model_path", "load_format", "weight_version", "flush_cache"},
    "/flush_cache": set(),
}


class SglangLike:
    """The server; `url` is where it listens once it was started.

    Args:
        model_path: A directory with `config.json`; the weights are random until the first update.
        port: 0 takes a free one.
    """

    def __init__(self, model_path: Path, *, port: int = 0, host: str = "127.0.0.1") -> None:
        torch.manual_seed(12345)  # dummy weights: nobody may get along with them
        self.model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_path)).eval()
        self.version = "default"
        self.cache: dict[tuple[int, ...], object] = {}
        self.calls: list[tuple[str, dict]] = []
        self.spoil: dict[str, object] = {}  # path -> (status, body) sent in place of the real answer
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((host, port), self._handler())
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def serve(self) -> None:
        self._server.serve_forever()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict) -> tuple[int, object]:
        unknown = set(body) - ALLOWED[path]
        if unknown:
            return 400, {"error": f"unknown fields {sorted(unknown)}"}
        self.calls.append((path, body))
        if path in self.spoil:
            return self.spoil[path]
        with self._lock, torch.no_grad():
            if path == "/generate":
                pairs = zip(body["input_ids"], body["sampling_params"], strict=True)
                return 200, [self._one(ids, parameters) for ids, parameters in pairs]
            if path == "/flush_cache":
                self.cache.clear()
                return 200, "Cache flushed.\n"
            return self._update(body)

    def _update(self, body: dict) -> tuple[int, object]:
        files = sorted(Path(body["model_path"]).glob("*.safetensors"))
        weights = {name: tensor for file in files for name, tensor in load_file(file).items()}
        own = self.model.state_dict()
        wrong = [name for name, tensor in weights.items() if name not in own or own[name].shape != tensor.shape]
        if not files or wrong or body["load_format"] != "auto":
            return 400, {"success": False, "message": f"cannot load {files} {wrong}", "num_paused_requests": 0}
        for name, tensor in weights.items():
            own[name].copy_(tensor)
        self.version = body["weight_version"]
        if body["flush_cache"]:
            self.cache.clear()
        return 200, {"success": True, "message": "Succeeded.", "num_paused_requests": 0}

    def _one(self, prompt: list[int], parameters: dict) -> dict:
        if len(prompt) > 1 and tuple(prompt[:-1]) not in self.cache:
            output = self.model(input_ids=torch.tensor([prompt[:-1]]), use_cache=True)
            self.cache[tuple(prompt[:-1])] = output.past_key_values
        past = copy.deepcopy(self.cache.get(tuple(prompt[:-1])))
        draws = torch.Generator().manual_seed(parameters["sampling_seed"])
        temperature = parameters["temperature"]
        token, pairs, reason = prompt[-1], [], {"type": "length", "length": parameters["max_new_tokens"]}
        while len(pairs) < parameters["max_new_tokens"]:
            output = self.model(input_ids=torch.tensor([[token]]), past_key_values=past, use_cache=True)
            past = output.past_key_values
            logprobs = (output.logits[0, -1].float() / (temperature or 1.0)).log_softmax(-1)
            if bool(logprobs.isnan().any()) or temperature == 0:
                token = int(logprobs.argmax())
            else:
                token = int(torch.multinomial(logprobs.exp(), 1, generator=draws))
            value = float(logprobs[token])
            pairs.append([None if math.isnan(value) else value, token, None])
            if token in parameters["stop_token_ids"] and not parameters.get("ignore_eos"):
                reason = {"type": "stop", "matched": token}
                break
        meta = {"finish_reason": reason, "weight_version": self.version, "output_token_logprobs": pairs}
        return {"text": "", "output_ids": [pair[1] for pair in pairs], "meta_info": meta}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200 if self.path == "/health_generate" else 404, "")

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                if self.path not in ALLOWED:
                    self._send(404, {"detail": "Not Found"})
                else:
                    self._send(*server.answer(self.path, body))

            def _send(self, status: int, body: object) -> None:
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    SglangLike(options.model_path, port=options.port, host=options.host).serve()
