"""Everything a run consists of, built once from the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trainer.algorithms import KlController, fitting_horizon, kl_controller
from trainer.config import Config, ConfigError, world_size_problems
from trainer.data import Example, PromptOrder, Tokenizer, load_prompts, unpaired
from trainer.distributed import Pair, World, sharding_mesh
from trainer.loop.mathematics import Mathematics, ppo_mathematics
from trainer.models import build_networks, load_tokenizer
from trainer.rewards import REWARDS, Scorer, load_eval_reward, load_reward
from trainer.rollout import RolloutEngine, build_engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The parts of a run; only the networks, optimizers and engine change their inside.

    Attributes:
        config: The configuration.
        world: This rank and the others.
        tokenizer: Text to tokens and back.
        order: The training prompts by step.
        held_out: The evaluation's prompts.
        reward: Scores a sampled response; None where only given answers are learnt from.
        eval_reward: Scores a response of the evaluation; None when there is nothing to score with.
        actor: The policy, sharded.
        critic: The value network, sharded; None when the advantages need none.
        reference: The frozen policy, sharded.
        actor_optimizer: AdamW of the actor.
        critic_optimizer: AdamW of the critic, if there is one.
        engine: Samples.
        mathematics: The formulas.
    """

    config: Config
    world: World
    tokenizer: Tokenizer
    order: PromptOrder
    held_out: tuple[Example, ...]
    reward: Scorer | None
    eval_reward: Scorer | None
    actor: torch.nn.Module
    critic: torch.nn.Module | None
    reference: torch.nn.Module
    actor_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer | None
    engine: RolloutEngine
    mathematics: Mathematics

    @property
    def trained(self) -> dict[str, Pair]:
        """The networks that training changes, each with its optimizer, by name."""
        pairs = {"actor": (self.actor, self.actor_optimizer)}
        if self.critic is not None and self.critic_optimizer is not None:
            pairs["critic"] = (self.critic, self.critic_optimizer)
        return pairs

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
    mesh = sharding_mesh(world, config.trainer.fsdp_config)
    # What learns from given answers needs no reward; with one, its evaluation samples answers and scores them.
    reward = load_reward(config.reward, REWARDS) if config.reward.is_given else None
    eval_reward = load_eval_reward(config.reward, REWARDS, reward)
    tokenizer = load_tokenizer(config)
    prompts = load_prompts(config, tokenizer, announce=world.is_main)
    networks = build_networks(config, prompts.train, tokenizer, world.device).sharded(mesh, config)
    optim = config.trainer.optim
    return Run(
        config=config,
        world=world,
        tokenizer=tokenizer,
        order=PromptOrder(
            examples=_units(config, prompts.train),
            batch_size=config.trainer.train_batch_size,
            shuffle=config.data.shuffle,
            seed=config.trainer.seed,
        ),
        held_out=tuple(_units(config, prompts.held_out)),
        reward=reward,
        eval_reward=eval_reward,
        actor=networks.actor,
        critic=networks.critic,
        reference=networks.reference,
        actor_optimizer=_adamw(networks.actor, optim.lr, config),
        # A factor on the loss cancels out in AdamW, so the weight of the value loss acts on the step itself.
        critic_optimizer=None
        if networks.critic is None
        else _adamw(networks.critic, optim.critic_lr * config.algorithm.vf_coef, config),
        engine=build_engine(config, networks, tokenizer, world),
        mathematics=mathematics or ppo_mathematics(config.algorithm.adv_estimator, group_size=config.rollout.n),
    )


def _units(config: Config, examples: Sequence[Example]) -> Sequence[Example]:
    """What is learnt from one by one: KTO takes pairs apart."""
    return unpaired(examples) if config.algorithm.name == "kto" else examples


def first_controller(config: Config) -> KlController:
    """The KL controller before the first step; without a horizon it gets one that fits the length of the run."""
    kl, settings = config.algorithm.kl_ctrl, config.trainer
    horizon = kl.horizon
    if horizon is None:
        horizon = fitting_horizon(settings.total_steps * settings.train_batch_size * config.rollout.n)
    return kl_controller(kl.type, kl_coef=kl.kl_coef, target_kl=kl.target_kl, horizon=horizon)


def _adamw(model: torch.nn.Module, lr: float, config: Config) -> torch.optim.Optimizer:
    optim = config.trainer.optim
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=lr, eps=optim.eps, weight_decay=optim.weight_decay, fused=True)
    for group in optimizer.param_groups:
        group["peak_lr"] = lr
    return optimizer
