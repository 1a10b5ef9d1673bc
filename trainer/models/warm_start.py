"""Supervised training of a built-in model on demonstrations, done once and cached.

The demonstrations hold slips, so the model starts with habits that PPO has to unlearn: its reward is well
above chance and well below the ceiling, and leaving the habits shows in the KL to the reference.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.config import WarmStartConfig
from trainer.data import CharTokenizer, Example, demonstration


def warm_start(
    model: torch.nn.Module,
    examples: Sequence[Example],
    tokenizer: CharTokenizer,
    config: WarmStartConfig,
) -> None:
    """Train a causal language model in place on demonstrations of the training prompts.

    Deterministic: everything random comes from `config.seed`, and the steps run on one thread.
    """
    rng = random.Random(f"warm-start/{config.seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of additions, and so the weights, must not depend on the machine's cores
    try:
        for step in range(config.steps):
            for group in optimizer.param_groups:
                group["lr"] = config.lr * _schedule(step, config.steps)
            chosen = [examples[rng.randrange(len(examples))] for _ in range(config.batch_size)]
            responses = [demonstration(example, config.slip_fraction, rng) for example in chosen]
            tokens, labels = _batch(chosen, responses, tokenizer)
            logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels[:, 1:], ignore_index=-100)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    finally:
        torch.set_num_threads(threads)


def _schedule(step: int, steps: int) -> float:
    warmup = min(1.0, (step + 1) / 20)
    return warmup * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def _batch(chosen: Sequence[Example], responses: Sequence[str], tokenizer: CharTokenizer) -> tuple[Tensor, Tensor]:
    """Right-padded tokens and labels; only the response is learnt, causal attention never sees the padding."""
    prompts = [tokenizer.encode(example.prompt) for example in chosen]
    answers = [[*tokenizer.encode(response), tokenizer.end_id] for response in responses]
    length = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
    tokens = torch.full((len(chosen), length), tokenizer.pad_id)
    labels = torch.full((len(chosen), length), -100)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        tokens[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    return tokens, labels
