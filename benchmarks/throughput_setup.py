"""What both trainers of `trainer_throughput.py` are given: models, prompts, and the packages of the peer."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from trainer.models.cache import cache_dir

PEER = ("trl==1.16.0", "datasets==5.2.0", "accelerate==1.15.0")
SHARED = ("torch", "transformers", "numpy", "tokenizers", "safetensors")
"""Packages that the peer gets in the very versions that are installed here."""

_NAMES = ("Ann", "Ben", "Carla", "Dev", "Eve", "Farid", "Grace", "Hugo")
_THINGS = ("apples", "books", "candles", "pencils", "stamps", "tickets")


def make_peer(directory: Path) -> Path:
    """Builds the peer's environment, unless it is there; returns its interpreter."""
    python = directory / "bin" / "python"
    pins = [*PEER, *(f"{name}=={metadata.version(name)}" for name in SHARED)]
    done = directory / "pins.json"
    if done.is_file() and json.loads(done.read_text(encoding="utf-8")) == pins:
        return python
    wheels = os.environ.get("PIP_FIND_LINKS")
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "--clear", "--python", sys.executable, str(directory)], check=True)
        links = ["--find-links", wheels] if wheels else []
        subprocess.run([uv, "pip", "install", "--python", str(python), *links, *pins], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", *pins], check=True)
    done.write_text(json.dumps(pins), encoding="utf-8")
    return python


def peer_directory() -> Path:
    """Where `make_peer` builds unless told otherwise."""
    return cache_dir() / "benchmarks" / PEER[0]


def tiny_model(directory: Path) -> Path:
    """A random Llama of the built-in model's shape, with a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", pad_token="<|pad|>")
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def smollm2_model(directory: Path) -> Path:
    """SmolLM2-135M-Instruct, as the trainer converts it."""
    from trainer.models.smollm2 import smollm2_directory

    del directory
    return smollm2_directory("model.path")


MODELS = {"tiny": tiny_model, "SmolLM2-135M": smollm2_model}


def prompts(count: int, sentences: int) -> list[str]:
    """Arithmetic stories, always the same ones.

    Args:
        count: How many.
        sentences: Sentences before the question; every third prompt has one less, so that there is padding to handle.
    """
    draw = random.Random(0)
    texts = []
    for number in range(count):
        name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
        story = [f"{name} has {draw.randint(10, 99)} {thing}."]
        while len(story) < sentences - (number % 3 == 2):
            other, change = draw.choice(_NAMES), draw.randint(2, 9)
            story.append(f"{other} {draw.choice(('gives', 'takes'))} {change} {thing} and goes home.")
        texts.append(f"{' '.join(story)} How many {thing} does {name} have now? Answer:")
    return texts
