"""The built-in model: a small Llama over a character vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trainer.config import ModelConfig
from trainer.models.lean import llama

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM


def llama_config(config: ModelConfig, vocab_size: int, max_length: int) -> LlamaConfig:
    """The Hugging Face configuration of the built-in model.

    Args:
        config: Sizes.
        vocab_size: Tokens.
        max_length: Longest sequence, prompt and response together (tokens).
    """
    return llama().LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads,
        max_position_embeddings=max_length,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        attn_implementation="sdpa",
    )


def new_llama(config: LlamaConfig, seed: int) -> LlamaForCausalLM:
    """A model with random float32 weights drawn from `seed`, without touching the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return llama().LlamaForCausalLM(config)
