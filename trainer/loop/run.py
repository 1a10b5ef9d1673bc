"""Everything a run consists of, built once from the configuration."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.algorithms import KlController, kl_controller
from trainer.config import Config, ConfigError, world_size_problems
from trainer.data import TASKS, CharTokenizer, Example, PromptOrder, split, tokenizer_of
from trainer.distributed import World, shard
from trainer.loop.mathematics import Mathematics, ppo_mathematics
from trainer.models import build_networks
from trainer.rewards import REWARDS, RewardFunction, load_reward
from trainer.rollout import ENGINES, RolloutEngine


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The parts of a run; only the networks, optimizers and engine change their inside.

    Attributes:
        config: The configuration.
        world: This rank and the others.
        tokenizer: Text to tokens and back.
        order: The training prompts by step.
        held_out: The evaluation's prompts.
        reward: Scores a response.
        actor: The policy, sharded.
        critic: The value network, sharded.
        reference: The frozen policy, sharded.
        actor_optimizer: AdamW of the actor.
        critic_optimizer: AdamW of the critic.
        engine: Samples.
        mathematics: The formulas.
    """

    config: Config
    world: World
    tokenizer: CharTokenizer
    order: PromptOrder
    held_out: tuple[Example, ...]
    reward: RewardFunction
    actor: torch.nn.Module
    critic: torch.nn.Module
    reference: torch.nn.Module
    actor_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer
    engine: RolloutEngine
    mathematics: Mathematics

    @property
    def last_step(self) -> int:
        """The step after which this run ends: the smallest of total_steps, num_epochs and until_step."""
        settings = self.config.trainer
        limits = [settings.total_steps]
        if settings.num_epochs is not None:
            limits.append(settings.num_epochs * self.order.steps_per_epoch)
        if settings.until_step is not None:
            limits.append(settings.until_step)
        return min(limits)


def build_run(config: Config, world: World, mathematics: Mathematics | None = None) -> Run:
    """Build data, reward, networks, optimizers and engine.

    Args:
        config: The configuration.
        world: This rank and the others.
        mathematics: Other formulas than the configuration's.

    Raises:
        ConfigError: What only shows with the data, the reward module or the number of ranks at hand.
    """
    problems = world_size_problems(config, world.size)
    if problems:
        raise ConfigError(problems)
    reward = load_reward(config.reward, REWARDS)
    task = TASKS[config.data.name](width=config.data.width)
    tokenizer = tokenizer_of(task)
    prompts = split(task, config.data)
    networks = build_networks(config, prompts.train, tokenizer, world.device)
    actor = shard(networks.actor, networks.actor.model.layers, world.mesh, config)
    critic = shard(networks.critic, networks.critic.backbone.layers, world.mesh, config)
    reference = shard(networks.reference, networks.reference.model.layers, world.mesh, config)
    optim = config.trainer.optim
    return Run(
        config=config,
        world=world,
        tokenizer=tokenizer,
        order=PromptOrder(
            examples=prompts.train,
            batch_size=config.trainer.train_batch_size,
            shuffle=config.data.shuffle,
            seed=config.trainer.seed,
        ),
        held_out=prompts.held_out,
        reward=reward,
        actor=actor,
        critic=critic,
        reference=reference,
        actor_optimizer=_adamw(actor, optim.lr, config),
        # A factor on the loss cancels out in AdamW, so the weight of the value loss acts on the step itself.
        critic_optimizer=_adamw(critic, optim.critic_lr * config.algorithm.vf_coef, config),
        engine=ENGINES[config.rollout.name](
            networks.sampler,
            pad_id=tokenizer.pad_id,
            end_id=tokenizer.end_id,
            max_batch_size=config.rollout.max_batch_size,
        ),
        mathematics=mathematics or ppo_mathematics(config.algorithm.adv_estimator),
    )


def first_controller(config: Config) -> KlController:
    """The KL controller before the first step."""
    kl = config.algorithm.kl_ctrl
    return kl_controller(kl.type, kl_coef=kl.kl_coef, target_kl=kl.target_kl, horizon=kl.horizon)


def _adamw(model: torch.nn.Module, lr: float, config: Config) -> torch.optim.Optimizer:
    optim = config.trainer.optim
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=optim.eps, weight_decay=optim.weight_decay, fused=True)
    for group in optimizer.param_groups:
        group["peak_lr"] = lr
    return optimizer
