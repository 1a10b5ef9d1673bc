"""Settings that verl accepts and that change nothing: each is repaired or refused, and what was done is noted.

Searched in such a state, a parameter would only measure noise. The facts are those of verl 0.9.1: what its code reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.backends.verl.names import ACTOR, MODEL, ROLLOUT
from autotune.backends.verl.settings import Draft
from autotune.spec.values import FlatConfig, JsonValue

_MOVED = {
    f"{ACTOR}.grad_clip": f"{ACTOR}.optim.clip_grad",
    "critic.grad_clip": "critic.optim.clip_grad",
    "custom_reward_function.path": "reward.custom_reward_function.path",
    "custom_reward_function.name": "reward.custom_reward_function.name",
    "reward_model.enable": "reward.reward_model.enable",
    "reward_model.enable_resource_pool": "reward.reward_model.enable_resource_pool",
    "reward_model.n_gpus_per_node": "reward.reward_model.n_gpus_per_node",
    "reward_model.nnodes": "reward.reward_model.nnodes",
    "reward_model.model.path": "reward.reward_model.model_path",
    "reward_model.reward_manager": "reward.reward_manager.name",
    "reward_model.num_workers": "reward.num_workers",
}
_LEGACY = ("reward_model.", "sandbox_fusion.")
_IN_REWARD = "algorithm.use_kl_in_reward"
_IN_LOSS = f"{ACTOR}.use_kl_loss"
_KL_CTRL = "algorithm.kl_ctrl"


def resolve(draft: Draft, tree: FlatConfig, searched: Sequence[str]) -> None:
    """Repairs or refuses what would do nothing.

    Args:
        draft: The settings, searched parameters included; changed in place.
        tree: verl's own tree, flat, for what was not given.
        searched: The names of the searched parameters: their values differ from trial to trial.
    """
    _legacy(draft, tree)
    _clip_ratio(draft)
    _kl_in_reward(draft, tree, searched)
    _kl_loss(draft, tree)
    _never_clipped(draft, tree, searched)
    _lora(draft, tree)
    _correction(draft, tree)


def _legacy(draft: Draft, tree: FlatConfig) -> None:
    for key in [key for key in draft.values if key in _MOVED]:
        draft.move(key, _MOVED[key])
    for key in [key for key in draft.values if key.startswith(_LEGACY)]:
        rest = key.partition(".")[2]
        new = f"reward.sandbox_fusion.{rest}" if key.startswith("sandbox") else f"reward.reward_model.{rest}"
        if new in tree:
            draft.move(key, new)
        else:
            draft.refuse(key, f"{key} is read by nothing in this verl.", "Look below `reward` for what replaced it.")


def _clip_ratio(draft: Draft) -> None:
    """The loss reads ``clip_ratio_low`` and ``clip_ratio_high`` where they are set, and the YAML always sets both."""
    both = (f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high")
    alone = f"{ACTOR}.clip_ratio"
    if not draft.given(alone):
        return
    for key in both:
        if not draft.given(key):
            note = f"clip_ratio has no effect beside {key}; set {key} to the same value."
            draft.repair(key, draft.values[alone], alone, note)
    if draft.origins[alone] == alone and all(draft.origins[key] == key for key in both):
        draft.refuse(alone, "clip_ratio has no effect: clip_ratio_low and clip_ratio_high are set.", "Remove it.")


def _kl_in_reward(draft: Draft, tree: FlatConfig, searched: Sequence[str]) -> None:
    """The controller exists only with ``use_kl_in_reward``; without any KL term not even a reference is loaded."""
    controls = [key for key in draft.values if key.startswith(f"{_KL_CTRL}.")]
    if not controls:
        return
    if not _true(draft, tree, _IN_REWARD):
        if draft.given(_IN_REWARD):
            for key in controls:
                message = f"{key} has no effect while {_IN_REWARD} is false."
                draft.refuse(key, message, f"Remove one of the two, or search {ACTOR}.kl_loss_coef.")
            return
        if draft.values.get(_IN_LOSS) is True and not draft.given(f"{ACTOR}.kl_loss_coef"):
            _into_loss(draft, controls)
            return
        note = f"{controls[0]} has no effect without {_IN_REWARD}; set it to true."
        draft.repair(_IN_REWARD, True, controls[0], note)
    kind = f"{_KL_CTRL}.type"
    if _value(draft, tree, kind) == "fixed" and kind not in searched:
        for key in (f"{_KL_CTRL}.target_kl", f"{_KL_CTRL}.horizon"):
            if draft.given(key):
                message = f"{key} has no effect with {kind} fixed."
                draft.refuse(key, message, f"Set {kind}: adaptive, or remove it.")


def _into_loss(draft: Draft, controls: Sequence[str]) -> None:
    for key in controls:
        if key == f"{_KL_CTRL}.kl_coef":
            draft.move(key, f"{ACTOR}.kl_loss_coef")
        else:
            message = f"{key} has no effect: the KL term is in the loss ({_IN_LOSS}), which has a fixed coefficient."
            draft.refuse(key, message, f"Remove it, or set {_IN_REWARD}: true in place of {_IN_LOSS}.")


def _kl_loss(draft: Draft, tree: FlatConfig) -> None:
    for key in (f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type"):
        if not draft.given(key) or _true(draft, tree, _IN_LOSS):
            continue
        if draft.given(_IN_LOSS):
            draft.refuse(key, f"{key} has no effect while {_IN_LOSS} is false.", "Remove one of the two.")
        else:
            draft.repair(_IN_LOSS, True, key, f"{key} has no effect without {_IN_LOSS}; set it to true.")


def _never_clipped(draft: Draft, tree: FlatConfig, searched: Sequence[str]) -> None:
    """With one update on one mini-batch per step the ratio is exactly 1, and nothing is ever clipped."""
    clips = [key for key in (f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high") if draft.given(key)]
    deciding = (f"{ACTOR}.ppo_epochs", f"{ACTOR}.ppo_mini_batch_size", "data.train_batch_size")
    epochs, mini, batch = (_value(draft, tree, key) for key in deciding)
    if not clips or epochs != 1 or mini != batch:
        return
    origin = draft.origins[clips[0]]
    if origin not in searched or any(draft.origins.get(key) in searched for key in deciding):
        draft.notes.append("nothing is clipped here: one epoch over one mini-batch keeps the ratio at 1.")
        return
    message = "has no effect: with one epoch over one mini-batch the ratio is exactly 1 and nothing is clipped."
    draft.refuse(clips[0], message, "Search ppo_epochs or a smaller mini_batch_size too, or do not search this.")


def _lora(draft: Draft, tree: FlatConfig) -> None:
    """With the default ``dummy`` the engine would sample from random base weights under LoRA."""
    rank, load = f"{MODEL}.lora_rank", f"{ROLLOUT}.load_format"
    value = _value(draft, tree, rank)
    if isinstance(value, int) and value > 0 and _value(draft, tree, load) == "dummy":
        if draft.given(load):
            draft.refuse(load, f"{load} dummy leaves the base weights of a LoRA run random.", "Set it to safetensors.")
        else:
            draft.repair(load, "safetensors", rank, f"{rank} needs {load} safetensors; set it.")


def _correction(draft: Draft, tree: FlatConfig) -> None:
    """A threshold of the weights between engine and trainer caps nothing while no weights are computed."""
    kind = "algorithm.rollout_correction.rollout_is"
    threshold = f"{kind}_threshold"
    if not draft.given(threshold) or draft.values[threshold] is None or _value(draft, tree, kind) is not None:
        return
    if draft.given(kind):
        draft.refuse(threshold, f"{threshold} has no effect while {kind} is null.", "Remove one of the two.")
    else:
        draft.repair(kind, "token", threshold, f"{threshold} has no effect without {kind}; set it to token.")


def _value(draft: Draft, tree: FlatConfig, key: str) -> JsonValue:
    return draft.values.get(key, tree.get(key))


def _true(draft: Draft, tree: FlatConfig, key: str) -> bool:
    return _value(draft, tree, key) is True
