"""Tokens per second and peak memory of our GRPO against TRL's `GRPOTrainer`, on the same models, prompts and shapes.

Both run in processes of their own, each loaded once per round, and take their steps in turn: one of ours, one of TRL's.
A step is everything from the sampling of one batch to the sampling of the next: generation with Hugging Face models,
rewards, reference log-probabilities, forward, backward, one AdamW update, bookkeeping. Throughput is the prompt and
response tokens that the step trained on (padding left out, a prompt counted once per response, as TRL counts it) over
the seconds of the step, and beside that over the processor seconds of its process, which other programs on the machine
disturb less; on an idle machine and one thread both are the same. The first step of each round is thrown away. Memory
is the largest resident set of the process since its start, nothing taken off: imports, loading, weights, AdamW's
moments, activations.

Alike on both sides: model, prompts and their order, group size, response length (no end token ends a response),
float32, threads, batch and micro-batch, the loss (GRPO with the k3 KL loss at 0.04), gradient clipping, one update per
step.

Where we gain: a prompt is computed once for all its responses, in sampling, in the reference pass and in the update
(docs/adr/0033); the key-value cache grows in place. The gain grows with the group and with the prompt's share of the
tokens, and falls towards nothing for short prompts. Where we do not: a decoding step on a CPU is one thin matrix
product after another for both, and TRL too measures the actor in its update and makes logits in chunks. Memory is less
because a prompt's activations are kept once.

    python benchmarks/trainer_throughput.py --make-peer            builds TRL's environment once, then measures
    python benchmarks/trainer_throughput.py --peer-python PYTHON   measures against an environment that has TRL
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Target, finish, parser, progress, spread

HERE = Path(__file__).resolve().parent
SPEED, MEMORY = 1.3, 1.0
"""At least so many times TRL's tokens per second, at no more than so many times its memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What one comparison trains on.

    Attributes:
        model: A key of `MODELS`.
        sentences: Length of the prompts (see `prompts`).
        response_tokens: Length of every response.
        prompts_per_step: Prompts in a batch.
        group_size: Responses to each.
        micro_batch_size: Responses per forward and backward.
        steps: Steps measured in a round, and one more that is not.
        rounds: Fresh processes of both.
    """

    model: str
    sentences: int
    response_tokens: int
    prompts_per_step: int
    group_size: int
    micro_batch_size: int
    steps: int
    rounds: int


SHAPES = {
    "tiny": Shape(
        model="tiny", sentences=3, response_tokens=128, prompts_per_step=8, group_size=8, micro_batch_size=64,
        steps=10, rounds=3,
    ),
    "SmolLM2-135M": Shape(
        model="SmolLM2-135M", sentences=3, response_tokens=36, prompts_per_step=2, group_size=4, micro_batch_size=8,
        steps=3, rounds=2,
    ),
    "SmolLM2-135M, short prompts": Shape(
        model="SmolLM2-135M", sentences=1, response_tokens=36, prompts_per_step=2, group_size=4, micro_batch_size=8,
        steps=3, rounds=2,
    ),
}  # fmt: skip
QUICK = {
    "tiny": Shape(
        model="tiny", sentences=3, response_tokens=64, prompts_per_step=4, group_size=8, micro_batch_size=32,
        steps=5, rounds=1,
    ),
}  # fmt: skip


@dataclass(kw_only=True, slots=True)
class Measured:
    """What one side of a comparison did.

    Attributes:
        tokens_per_s: Of every step measured.
        tokens_per_cpu_s: The same over the processor seconds of the process.
        tokens: Per step.
        memory_gib: Peak of every round.
        versions: Of the packages that did it.
    """

    tokens_per_s: list[float]
    tokens_per_cpu_s: list[float]
    tokens: list[int]
    memory_gib: list[float]
    versions: dict[str, str]


class Side:
    """A trainer in a process of its own.

    Args:
        command: Starts it.
        log: Where its stderr goes.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("w") as handle:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=handle, text=True, env=environment
            )

    def go(self) -> None:
        """Lets it take a step."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def heard(self) -> dict[str, object]:
        """What it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended early:\n{self._log.read_text()[-3000:]}")
        return dict(json.loads(line))

    def close(self) -> None:
        """Ends it, if it has not ended."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.kill()
        self._process.wait()


def measure(shape: Shape, peer: Path, threads: int, directory: Path) -> dict[str, Measured]:
    """Runs one comparison; returns both sides by name."""
    settings = settings_of(shape, threads, directory)
    (directory / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    commands = {
        "autotune": [sys.executable, str(HERE / "throughput_ours.py")],
        "TRL": [str(peer), str(HERE / "throughput_trl.py")],
    }
    environment = {
        **os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }  # fmt: skip
    sides = {
        name: Measured(tokens_per_s=[], tokens_per_cpu_s=[], tokens=[], memory_gib=[], versions={}) for name in commands
    }
    for number in range(shape.rounds):
        with contextlib.ExitStack() as stack:
            running = {}
            for name, command in commands.items():
                log = directory / f"{name}-{number}.log"
                running[name] = Side([*command, str(directory / "settings.json")], environment, log)
                stack.callback(running[name].close)
                running[name].heard()  # ready: one loads after the other
            take_steps(running, sides, shape.steps)
        for name, side in sides.items():
            speed = statistics.median(side.tokens_per_s[-shape.steps :])
            cpu = statistics.median(side.tokens_per_cpu_s[-shape.steps :])
            memory = side.memory_gib[-1]
            progress(f"  round {number + 1}: {name} {speed:.1f} tokens/s, {cpu:.1f} per cpu s, {memory:.2f} GiB")
    return sides


def take_steps(running: Mapping[str, Side], sides: Mapping[str, Measured], steps: int) -> None:
    """One step of each in turn; the first one of each is thrown away."""
    for step in range(steps + 1):
        for name, side in running.items():
            side.go()
            words = side.heard()
            if step:
                tokens = int(words["tokens"])
                sides[name].tokens.append(tokens)
                sides[name].tokens_per_s.append(tokens / float(words["seconds"]))
                sides[name].tokens_per_cpu_s.append(tokens / float(words["cpu_seconds"]))
    for name, side in running.items():
        words = side.heard()
        sides[name].memory_gib.append(float(words["peak_memory_gib"]))
        sides[name].versions = dict(words["versions"])


def settings_of(shape: Shape, threads: int, directory: Path) -> dict[str, object]:
    """What both sides read: the shape, the model's directory and the file of prompts."""
    from transformers import AutoTokenizer

    from benchmarks.throughput_setup import MODELS, prompts

    model = MODELS[shape.model](directory / "model")
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts = prompts((shape.steps + 2) * shape.prompts_per_step, shape.sentences)
    path = directory / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts), encoding="utf-8")
    return {
        **asdict(shape),
        "model": str(model),
        "prompts": str(path),
        "longest_prompt": max(len(tokenizer.encode(text)) for text in texts),
        "steps": shape.steps + 1,
        "threads": threads,
        "kl_loss_coef": 0.04,
        "lr": 1e-6,
        "seed": 0,
    }


def summary(sides: Mapping[str, Measured]) -> dict[str, object]:
    """Both sides and their ratios: speeds step by step, memories round by round."""
    ours, theirs = sides["autotune"], sides["TRL"]
    if ours.tokens != theirs.tokens:
        raise RuntimeError(f"the sides trained on different batches: {ours.tokens} and {theirs.tokens} tokens per step")
    return {
        "tokens_per_step": spread(ours.tokens),
        "tokens_per_s": {name: spread(side.tokens_per_s) for name, side in sides.items()},
        "tokens_per_cpu_s": {name: spread(side.tokens_per_cpu_s) for name, side in sides.items()},
        "peak_memory_gib": {name: spread(side.memory_gib) for name, side in sides.items()},
        "speed_ratio": ratio(ours.tokens_per_s, theirs.tokens_per_s),
        "cpu_speed_ratio": ratio(ours.tokens_per_cpu_s, theirs.tokens_per_cpu_s),
        "memory_ratio": ratio(ours.memory_gib, theirs.memory_gib),
    }


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Ours over theirs, pair by pair: the two of a pair were measured one right after the other."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def targets_of(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Target]:
    """Speed and memory of every comparison."""
    for name, result in results.items():
        median = {key: result[key]["median"] for key in ("speed_ratio", "cpu_speed_ratio", "memory_ratio")}
        yield Target(name=f"{name}: tokens per second over TRL's", value=median["speed_ratio"], target=SPEED)
        yield Target(name=f"{name}: tokens per processor second", value=median["cpu_speed_ratio"], target=SPEED)
        yield Target(name=f"{name}: peak memory", value=median["memory_ratio"], target=MEMORY, at_least=False)


def chosen_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    reader = parser(__doc__.splitlines()[0])
    reader.add_argument("--peer-python", type=Path, metavar="PATH", help="interpreter of an environment with TRL")
    reader.add_argument("--make-peer", action="store_true", help="build that environment once, in the model cache")
    reader.add_argument("--shape", action="append", choices=SHAPES, help="compare on this one alone (repeatable)")
    reader.add_argument("--threads", type=int, default=1, help="threads of either side (default: 1)")
    return reader.parse_args(arguments)


def main() -> int:
    """Runs the benchmark."""
    chosen = chosen_options()
    from benchmarks.throughput_setup import make_peer, peer_directory

    peer = chosen.peer_python or peer_directory() / "bin" / "python"
    with contextlib.redirect_stdout(sys.stderr):
        if chosen.make_peer:
            peer = make_peer(peer_directory())
    if not peer.is_file():
        progress(f"there is no interpreter {peer}: build TRL's environment with --make-peer, or name one that has TRL")
        return 2
    shapes = QUICK if chosen.quick else SHAPES
    results: dict[str, object] = {}
    versions: dict[str, object] = {}
    for name, shape in shapes.items():
        if chosen.shape and name not in chosen.shape:
            continue
        progress(f"{name}:")
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
            sides = measure(shape, peer, chosen.threads, Path(directory))
        results[name] = {"shape": asdict(shape), **summary(sides)}
        versions = {side: measured.versions for side, measured in sides.items()}
    results = {**results, "threads": chosen.threads, "versions_of_sides": versions}
    compared = {name: result for name, result in results.items() if name in shapes}
    return finish("trainer_throughput", chosen, results, list(targets_of(compared)), ["torch", "transformers"])


if __name__ == "__main__":
    sys.exit(main())
