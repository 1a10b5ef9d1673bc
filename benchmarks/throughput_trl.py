"""TRL's `GRPOTrainer`, one step at a time (see `trainer_throughput.py`). Runs in the peer's environment."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from throughput_gate import Gate, vowels

NO_TOKEN = -1
"""An end token that is never sampled: every response has the same length."""


def reward(completions: list[str], **columns: object) -> list[float]:
    """See `vowels`."""
    del columns
    return [vowels(text) for text in completions]


def main(settings: Mapping[str, int]) -> None:
    """Trains until all steps are measured."""
    gate = Gate()

    import torch
    from datasets import load_dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(settings["threads"])

    class Steps(TrainerCallback):
        """Lets each step begin on the benchmark's word."""

        tokens = 0

        def on_step_begin(self, args, state, control, **rest):  # noqa: ANN001, ANN003, ANN202, ARG002 - as transformers calls it
            gate.step_begins(int(state.num_input_tokens_seen) - self.tokens, last=False)
            self.tokens = int(state.num_input_tokens_seen)

        def on_train_end(self, args, state, control, **rest):  # noqa: ANN001, ANN003, ANN202, ARG002
            gate.step_begins(int(state.num_input_tokens_seen) - self.tokens, last=True)

    with tempfile.TemporaryDirectory() as directory:
        config = GRPOConfig(
            output_dir=directory,
            per_device_train_batch_size=settings["micro_batch_size"],
            gradient_accumulation_steps=settings["prompts_per_step"]
            * settings["group_size"]
            // settings["micro_batch_size"],
            num_generations=settings["group_size"],
            max_completion_length=settings["response_tokens"],
            max_steps=settings["steps"],
            num_iterations=1,
            beta=settings["kl_loss_coef"],
            epsilon=0.2,
            loss_type="grpo",
            temperature=1.0,
            generation_kwargs={"eos_token_id": NO_TOKEN},
            learning_rate=settings["lr"],
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            weight_decay=0.0,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            shuffle_dataset=False,
            model_init_kwargs={"dtype": "float32"},
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            include_num_input_tokens_seen=False,
            seed=settings["seed"],
        )
        trainer = GRPOTrainer(
            model=settings["model"],
            reward_funcs=reward,
            args=config,
            train_dataset=load_dataset("json", data_files=settings["prompts"], split="train", cache_dir=directory),
            processing_class=AutoTokenizer.from_pretrained(settings["model"]),
            callbacks=[Steps()],
        )
        trainer.eos_token_ids = [NO_TOKEN]  # nor is a response cut at the model's own end token
        trainer.train()
        names = ("trl", "torch", "transformers", "datasets", "accelerate")
        gate.end({name: metadata.version(name) for name in names})


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
