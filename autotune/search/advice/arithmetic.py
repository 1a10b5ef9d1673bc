"""Rules on numbers of the configuration that no curve is needed to question."""

from __future__ import annotations

from statistics import median

from autotune.search.advice.base import FEW, RANGES, Advice, Case, Change, rounded

SMALLEST, MOST_EPOCHS = 512, 4


def small_batches(case: Case) -> Advice | None:
    """The sequences per update times the passes are few, and the gradients vary much."""
    mini, epochs = case.number("trainer.mini_batch_size"), case.number("trainer.ppo_epochs")
    batch, norms = case.number("trainer.train_batch_size"), case.values("actor/grad_norm")
    if mini is None or epochs is None or batch is None or mini * epochs >= SMALLEST or len(norms) < 2 * FEW:
        return None
    spread = median(abs(norm - median(norms)) for norm in norms) / max(median(norms), 1e-12)
    if spread < 0.5:
        return None
    if mini < batch:
        change = Change(path="trainer.mini_batch_size", before=int(mini), after=int(min(batch, 2 * mini)))
    else:
        change = Change(path="trainer.train_batch_size", before=int(batch), after=int(2 * batch))
    return Advice(
        rule="small_batches",
        finding=(
            f"mini_batch_size {mini:g} times ppo_epochs {epochs:g} is {mini * epochs:g}, below {SMALLEST}, "
            f"and the norm of the gradient varies by {spread:.0%}"
        ),
        numbers={"product": mini * epochs, "spread": spread},
        changes=(change,),
        source=RANGES,
    )


def many_epochs(case: Case) -> Advice | None:
    """More than four passes over one batch fit its noise."""
    epochs = case.number("trainer.ppo_epochs")
    if epochs is None or epochs <= MOST_EPOCHS:
        return None
    return Advice(
        rule="many_epochs",
        finding=f"each batch is passed over {epochs:g} times; beyond {MOST_EPOCHS} the policy fits the batch",
        numbers={"ppo_epochs": epochs},
        changes=(Change(path="trainer.ppo_epochs", before=int(epochs), after=MOST_EPOCHS),),
        source=RANGES,
    )


def short_warmup(case: Case) -> Advice | None:
    """Gradients were far larger in the first steps than later, and the learning rate rose within very few."""
    norms, warmup = case.values("actor/grad_norm"), case.number("trainer.optim.warmup_steps")
    if len(norms) < 3 * FEW or warmup is None or warmup >= 0.1 * case.total_steps:
        return None
    early, later = max(norms[: max(3, int(warmup) + 2)]), median(norms)
    if early < 4 * later or later <= 0.02 * early:  # nearly no gradient later: it has collapsed
        return None
    return Advice(
        rule="short_warmup",
        finding=f"the first gradients reach {early:.3g}, usual is {later:.3g}, and warm-up takes {warmup:g} steps",
        numbers={"early": early, "usual": later, "warmup_steps": warmup},
        changes=(
            Change(
                path="trainer.optim.warmup_steps",
                before=int(warmup),
                after=max(int(warmup) + 1, int(rounded(0.1 * case.total_steps))),
            ),
        ),
        source=RANGES,
    )
