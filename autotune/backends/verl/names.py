"""One table from this project's parameter names to verl's keys, and one from verl's metrics to this project's.

Key names and their effects are those of verl 0.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.spec.values import JsonValue

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"
REF = "actor_rollout_ref.ref"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapped:
    """Where one of our parameters goes.

    Attributes:
        keys: verl's keys, all set to the same value; the first tells the default. Those that the tree does not have
            (FSDP's under Megatron, and the other way round) are left out.
        fraction: The value is a fraction even where verl's YAML says 0 or 1.
        words: Our word -> verl's value, where they differ.
    """

    keys: tuple[str, ...]
    fraction: bool = False
    words: Mapping[str, JsonValue] = field(default_factory=dict)


def _to(*keys: str) -> Mapped:
    return Mapped(keys=keys)


def _fraction(*keys: str) -> Mapped:
    return Mapped(keys=keys, fraction=True)


_MICRO = "log_prob_micro_batch_size_per_gpu"

PARAMETERS: Mapping[str, Mapped] = {
    "algorithm.gamma": _fraction("algorithm.gamma"),
    "algorithm.lam": _fraction("algorithm.lam"),
    "algorithm.clip_ratio": _fraction(f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"),
    "algorithm.clip_ratio_high": _fraction(f"{ACTOR}.clip_ratio_high"),
    "algorithm.clip_ratio_c": _fraction(f"{ACTOR}.clip_ratio_c"),
    "algorithm.loss_agg_mode": _to(f"{ACTOR}.loss_agg_mode"),
    "algorithm.cliprange_value": _fraction("critic.cliprange_value"),
    "algorithm.entropy_coeff": _fraction(f"{ACTOR}.entropy_coeff"),
    "model.path": _to(f"{MODEL}.path", "critic.model.path"),
    "model.critic_path": _to("critic.model.path"),
    "model.trust_remote_code": _to(f"{MODEL}.trust_remote_code", "critic.model.trust_remote_code"),
    "model.enable_gradient_checkpointing": _to(
        f"{MODEL}.enable_gradient_checkpointing", "critic.model.enable_gradient_checkpointing"
    ),
    "model.lora_rank": _to(f"{MODEL}.lora_rank", "critic.model.lora_rank"),
    "model.lora_alpha": _to(f"{MODEL}.lora_alpha", "critic.model.lora_alpha"),
    "rollout.name": _to(f"{ROLLOUT}.name"),
    "rollout.dtype": _to(f"{ROLLOUT}.dtype"),
    "rollout.temperature": _fraction(f"{ROLLOUT}.temperature"),
    "rollout.top_p": _fraction(f"{ROLLOUT}.top_p"),
    "rollout.top_k": _to(f"{ROLLOUT}.top_k"),
    "rollout.n": _to(f"{ROLLOUT}.n"),
    "rollout.gpu_memory_utilization": _fraction(f"{ROLLOUT}.gpu_memory_utilization"),
    "rollout.tensor_model_parallel_size": _to(f"{ROLLOUT}.tensor_model_parallel_size"),
    "rollout.max_num_batched_tokens": _to(f"{ROLLOUT}.max_num_batched_tokens"),
    "rollout.max_num_seqs": _to(f"{ROLLOUT}.max_num_seqs"),
    "rollout.enable_chunked_prefill": _to(f"{ROLLOUT}.enable_chunked_prefill"),
    "rollout.enable_prefix_caching": _to(f"{ROLLOUT}.enable_prefix_caching"),
    "rollout.enforce_eager": _to(f"{ROLLOUT}.enforce_eager"),
    "trainer.total_steps": _to("trainer.total_training_steps"),
    "trainer.num_epochs": _to("trainer.total_epochs"),
    "trainer.train_batch_size": _to("data.train_batch_size"),
    "trainer.mini_batch_size": _to(f"{ACTOR}.ppo_mini_batch_size"),
    "trainer.ppo_epochs": _to(f"{ACTOR}.ppo_epochs"),
    "trainer.ppo_micro_batch_size_per_gpu": _to(
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        "critic.ppo_micro_batch_size_per_gpu",
        f"{REF}.{_MICRO}",
        f"{ROLLOUT}.{_MICRO}",
    ),
    "trainer.use_dynamic_bsz": _to(f"{ACTOR}.use_dynamic_bsz"),
    "trainer.ppo_max_token_len_per_gpu": _to(f"{ACTOR}.ppo_max_token_len_per_gpu"),
    "trainer.use_remove_padding": _to(f"{MODEL}.use_remove_padding", "critic.model.use_remove_padding"),
    "trainer.max_checkpoints": _to("trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep"),
    "trainer.grad_clip": _fraction(f"{ACTOR}.optim.clip_grad", "critic.optim.clip_grad"),
    "trainer.optim.lr": _fraction(f"{ACTOR}.optim.lr"),
    "trainer.optim.critic_lr": _fraction("critic.optim.lr"),
    "trainer.optim.weight_decay": _fraction(f"{ACTOR}.optim.weight_decay", "critic.optim.weight_decay"),
    "trainer.optim.warmup_steps": _to(f"{ACTOR}.optim.lr_warmup_steps", "critic.optim.lr_warmup_steps"),
    "trainer.optim.scheduler": _to(
        f"{ACTOR}.optim.lr_scheduler_type",
        "critic.optim.lr_scheduler_type",
        f"{ACTOR}.optim.lr_decay_style",
        "critic.optim.lr_decay_style",
    ),
    "trainer.fsdp_config.sharding_strategy": Mapped(
        keys=tuple(f"{part}.reshard_after_forward" for part in (f"{ACTOR}.fsdp_config", "critic.fsdp")),
        words={"FULL_SHARD": True, "SHARD_GRAD_OP": False},
    ),
    "trainer.fsdp_config.cpu_offload": _to(
        f"{ACTOR}.fsdp_config.param_offload",
        f"{ACTOR}.fsdp_config.optimizer_offload",
        "critic.fsdp.param_offload",
        "critic.fsdp.optimizer_offload",
        f"{ACTOR}.megatron.param_offload",
        f"{ACTOR}.megatron.optimizer_offload",
        "critic.megatron.param_offload",
        "critic.megatron.optimizer_offload",
    ),
    "trainer.fsdp_config.shard_group_size": _to(f"{ACTOR}.fsdp_config.fsdp_size", "critic.fsdp.fsdp_size"),
    "data.train_file": _to("data.train_files"),
    "data.eval_file": _to("data.val_files"),
    "trainer.seed": _to(
        f"{ROLLOUT}.seed",
        "data.seed",
        f"{ACTOR}.data_loader_seed",
        "critic.data_loader_seed",
        f"{ACTOR}.fsdp_config.seed",
        f"{REF}.fsdp_config.seed",
        "critic.fsdp.seed",
    ),
}
"""Our name -> verl's keys. Names that are alike (``algorithm.kl_ctrl.kl_coef``, ``data.max_response_length``,
``trainer.save_freq``, ...) need no entry: every key of verl's own tree can be used as it is."""

FRACTIONS = frozenset(
    {f"{ACTOR}.entropy_coeff", f"{ROLLOUT}.top_p", f"{ROLLOUT}.val_kwargs.temperature", f"{ROLLOUT}.val_kwargs.top_p"}
)
"""Keys of verl's that are fractions although its YAML writes a whole number."""

WITHOUT_EQUIVALENT: Mapping[str, str] = {
    "algorithm.vf_coef": "its critic is a model of its own; search trainer.optim.critic_lr instead",
    "critic.vf_coef": "its critic is a model of its own; search critic.optim.lr instead",
    "algorithm.whiten_advantages": "its gae always whitens",
    "algorithm.truncation": "it treats every response as ended",
    "data": "its data are files: set data.train_files and data.val_files",
    "data.name": "its data are files: set data.train_files and data.val_files",
    "model": "its model is a path: set model.path",
    "reward": "its reward is a function in a file: set reward.custom_reward_function.path",
    "reward.name": "its reward is a function in a file: set reward.custom_reward_function.path",
    "reward.function": "its reward is a function in a file: set reward.custom_reward_function.path",
    "critic.model.fsdp_config": "its critic's engine is set under critic.fsdp",
}
"""What verl does not have, and what to set in its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One of our metrics.

    Attributes:
        sources: verl's metrics, the first that was logged counts.
        about: What it is, with its unit.
    """

    sources: tuple[str, ...]
    about: str


def _metric(about: str, *sources: str) -> Metric:
    return Metric(sources=sources, about=f"{about}; verl's {' or '.join(sources)}")


METRICS: Mapping[str, Metric] = {
    "reward/mean": _metric("mean reward of the training responses, without KL penalty", "critic/score/mean"),
    "reward/max": _metric("largest of those rewards", "critic/score/max"),
    "kl/actor_ref": _metric("KL to the reference (nats per token)", "actor/reward_kl_penalty", "actor/kl_loss"),
    "kl/old_new": _metric("KL of one update, mean of k1, may be negative (nats per token)", "actor/ppo_kl"),
    "kl/rollout_actor": _metric("gap between engine and trainer, mean of k3 (nats per token)", "rollout_corr/k3_kl"),
    "kl/coef": _metric("coefficient of the KL penalty", "actor/reward_kl_penalty_coeff", "actor/kl_coef"),
    "actor/loss": _metric("loss of the actor", "actor/loss", "actor/pg_loss"),
    "actor/clip_fraction": _metric("share of clipped tokens (0 to 1)", "actor/pg_clipfrac"),
    "actor/entropy": _metric("entropy of the policy (nats per token)", "actor/entropy"),
    "actor/grad_norm": _metric("norm of the actor's gradient before clipping", "actor/grad_norm"),
    "actor/lr": _metric("learning rate of the actor", "actor/lr"),
    "critic/loss": _metric("clipped value loss", "critic/vf_loss"),
    "critic/clip_fraction": _metric("share of clipped values (0 to 1)", "critic/vf_clipfrac"),
    "critic/explained_variance": _metric("explained variance of the returns (at most 1)", "critic/vf_explained_var"),
    "critic/grad_norm": _metric("norm of the critic's gradient before clipping", "critic/grad_norm"),
    "response/length_mean": _metric("mean length of the responses (tokens)", "response_length/mean"),
    "response/truncated_fraction": _metric("share of truncated responses (0 to 1)", "response_length/clip_ratio"),
    "perf/tokens_per_s": _metric("tokens per second and GPU", "perf/throughput"),
    "perf/step_s": _metric("duration of the step (seconds)", "perf/time_per_step", "timing_s/step"),
    "perf/rollout_s": _metric("duration of sampling (seconds)", "timing_s/gen"),
    "perf/update_s": _metric("duration of the actor's update (seconds)", "timing_s/update_actor"),
    "perf/peak_memory_gb": _metric("largest memory of one GPU (GiB)", "actor/perf/max_memory_allocated_gb"),
    "perf/mfu": _metric("model FLOPs utilisation of the actor (0 to 1)", "perf/mfu/actor"),
    "eval/reward": _metric(
        "mean reward on the validation files, over their data sources",
        "val-core|val-aux/SOURCE/reward/mean@N",
        "val-core/SOURCE/acc/mean@N",
    ),
    "eval/accuracy": _metric("mean accuracy on the validation files (0 to 1)", "val-core/SOURCE/acc/mean@N"),
}
"""Our metric -> verl's."""
