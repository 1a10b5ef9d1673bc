"""Our GRPO, one step at a time (see `trainer_throughput.py`)."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.throughput_gate import Gate, vowels

if TYPE_CHECKING:
    from trainer.data import Example, PromptOrder

NO_TOKEN = -1
"""An end token that is never sampled: every response has the same length."""


class Measured(Exception):  # noqa: N818 - no error
    """All steps are measured."""


def reward(prompt: str, response: str, ground_truth: str | None) -> float:
    """See `vowels`."""
    del prompt, ground_truth
    return vowels(response)


def overrides(settings: Mapping[str, object]) -> dict[str, object]:
    """The configuration of the run: the recipe's GRPO with the paper's KL estimator and one update per step."""
    prompts = settings["prompts_per_step"]
    return {
        "algorithm": "grpo",
        "algorithm.clip_ratio": 0.2,
        "algorithm.kl_loss_type": "k3",
        "algorithm.kl_loss_coef": settings["kl_loss_coef"],
        "model": "hf",
        "model.path": settings["model"],
        "model.dtype": "float32",
        "model.enable_gradient_checkpointing": False,
        "rollout.n": settings["group_size"],
        "data": "jsonl",
        "data.train_file": settings["prompts"],
        "data.eval_file": settings["prompts"],
        "data.eval_size": 1,
        "data.shuffle": False,
        "data.max_prompt_length": settings["longest_prompt"],
        "data.max_response_length": settings["response_tokens"],
        "reward.name": None,
        "reward.function": "benchmarks.throughput_ours:reward",
        "trainer.total_steps": 1_000,  # the benchmark ends it
        "trainer.train_batch_size": prompts,
        "trainer.mini_batch_size": prompts,
        "trainer.ppo_micro_batch_size_per_gpu": settings["micro_batch_size"],
        "trainer.fsdp_config.sharding_strategy": "NO_SHARD",
        "trainer.grad_clip": 1.0,
        "trainer.optim.lr": settings["lr"],
        "trainer.optim.warmup_steps": 0,
        "trainer.save_freq": 0,
        "trainer.test_freq": 0,
        "trainer.seed": settings["seed"],
        "system.device": "cpu",
        "system.num_threads": settings["threads"],
        "system.logging.progress_freq": 0,
    }


@dataclasses.dataclass(kw_only=True)
class GatedOrder:
    """The prompts of each step, handed out on the benchmark's word."""

    inner: PromptOrder
    gate: Gate
    tokens_of: Callable[[Sequence[Example]], int]
    steps: int
    tokens: int = 0

    def batch(self, step: int) -> list[Example]:
        """See `PromptOrder`; the step before ends here."""
        self.gate.step_begins(self.tokens, last=step > self.steps)
        if step > self.steps:
            raise Measured
        examples = self.inner.batch(step)
        self.tokens = self.tokens_of(examples)
        return examples


def main(settings: Mapping[str, int]) -> None:
    """Trains until all steps are measured."""
    gate = Gate()

    import torch

    from trainer.config import build, compose
    from trainer.distributed import open_world
    from trainer.loop.ppo import Progress, train
    from trainer.loop.run import build_run, first_controller
    from trainer.rollout import HfEngine
    from trainer.rollout.build import ENGINES
    from trainer.signals import StopFlag

    ENGINES["hf"] = lambda config, networks, tokenizer, *_: HfEngine(
        networks.sampler,
        pad_id=tokenizer.pad_id,
        end_id=NO_TOKEN,
        max_batch_size=config.rollout.max_batch_size,
    )
    config = build(compose(overrides=overrides(settings)))
    torch.set_num_threads(settings["threads"])
    torch.use_deterministic_algorithms(config.system.determinism)
    with open_world(config.system) as world, tempfile.TemporaryDirectory() as directory:
        run = build_run(config, world)

        def tokens_of(examples: Sequence[Example]) -> int:
            prompts = sum(len(run.tokenizer.encode(example.prompt)) for example in examples)
            return (prompts + len(examples) * settings["response_tokens"]) * settings["group_size"]

        order = GatedOrder(inner=run.order, gate=gate, tokens_of=tokens_of, steps=settings["steps"])
        try:
            start = Progress(step=0, controller=first_controller(config))
            train(dataclasses.replace(run, order=order), start, Path(directory), StopFlag())
        except Measured:
            gate.end({name: metadata.version(name) for name in ("torch", "transformers")})


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
