"""Networks: the actor and its copies, the critic, and the weights they start from."""

from __future__ import annotations

from trainer.models.build import Networks, build_networks, initial_weights, load_tokenizer
from trainer.models.critic import Critic
from trainer.models.lora import merged
from trainer.models.source import Source, classifier_source, read_shape

__all__ = [
    "Critic",
    "Networks",
    "Source",
    "build_networks",
    "classifier_source",
    "initial_weights",
    "load_tokenizer",
    "merged",
    "read_shape",
]
