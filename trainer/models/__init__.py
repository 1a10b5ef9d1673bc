"""Networks: the actor and its copies, the critic, and the weights they start from."""

from __future__ import annotations

from trainer.models.build import Networks, build_networks, initial_weights, load_tokenizer
from trainer.models.critic import Critic
from trainer.models.lora import merged

__all__ = ["Critic", "Networks", "build_networks", "initial_weights", "load_tokenizer", "merged"]
