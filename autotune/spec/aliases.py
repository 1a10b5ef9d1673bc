"""Short names of parameters, as articles and other trainers spell them, to full paths of the configuration tree."""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "gamma": "algorithm.gamma",
    "lam": "algorithm.lam",
    "gae_lambda": "algorithm.lam",
    "clip_ratio": "algorithm.clip_ratio",
    "cliprange": "algorithm.clip_ratio",
    "clip_ratio_high": "algorithm.clip_ratio_high",
    "cliprange_value": "algorithm.cliprange_value",
    "vf_coef": "algorithm.vf_coef",
    "entropy_coef": "algorithm.entropy_coeff",
    "entropy_coeff": "algorithm.entropy_coeff",
    "kl_coef": "algorithm.kl_ctrl.kl_coef",
    "init_kl_coef": "algorithm.kl_ctrl.kl_coef",
    "target_kl": "algorithm.kl_ctrl.target_kl",
    "horizon": "algorithm.kl_ctrl.horizon",
    "kl_type": "algorithm.kl_ctrl.type",
    "beta": "algorithm.preference.beta",
    "dpo_beta": "algorithm.preference.beta",
    "label_smoothing": "algorithm.preference.label_smoothing",
    "loss_type": "algorithm.preference.loss_type",
    "desirable_weight": "algorithm.preference.desirable_weight",
    "undesirable_weight": "algorithm.preference.undesirable_weight",
    "temperature": "rollout.temperature",
    "lr": "trainer.optim.lr",
    "learning_rate": "trainer.optim.lr",
    "critic_lr": "trainer.optim.critic_lr",
    "weight_decay": "trainer.optim.weight_decay",
    "warmup_steps": "trainer.optim.warmup_steps",
    "scheduler": "trainer.optim.scheduler",
    "grad_clip": "trainer.grad_clip",
    "max_grad_norm": "trainer.grad_clip",
    "batch_size": "trainer.train_batch_size",
    "train_batch_size": "trainer.train_batch_size",
    "rollout_batch_size": "trainer.train_batch_size",
    "mini_batch_size": "trainer.mini_batch_size",
    "micro_batch_size_per_gpu": "trainer.ppo_micro_batch_size_per_gpu",
    "ppo_micro_batch_size_per_gpu": "trainer.ppo_micro_batch_size_per_gpu",
    "ppo_epochs": "trainer.ppo_epochs",
    "num_ppo_epochs": "trainer.ppo_epochs",
    "total_steps": "trainer.total_steps",
    "max_response_length": "data.max_response_length",
}
"""Short name -> full path; every path exists in the shipped configuration tree."""


def resolve(name: str) -> str:
    """The full path of a short name; any other name stays as it is."""
    return ALIASES.get(name, name)
