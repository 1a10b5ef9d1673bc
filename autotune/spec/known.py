"""The words a space file may use for things that live in other rooms, and the keys of each of its sections."""

from __future__ import annotations

from collections.abc import Mapping

SAMPLERS: Mapping[str, str] = {
    "tpe": "Tree-structured Parzen estimator: proposes near what did well.",
    "gp": "Gaussian process: few trials, numbers that always exist; seconds for a proposal.",
    "nsga2": "Genetic algorithm: crosses and mutates the best; many trials.",
    "nsga3": "The same for three objectives and more: keeps the front evenly covered.",
    "cmaes": "Evolution strategy: numbers that always exist, one objective, hundreds of trials; tpe for the rest.",
    "qmc": "Scrambled Sobol sequence: covers the space evenly, learns nothing.",
    "random": "Independent random configurations.",
    "grid": "Every combination of the listed values; five of a range.",
    "auto": "gp for up to 100 trials where every parameter is a number and always exists, else tpe.",
}

ONE_OBJECTIVE = frozenset({"cmaes"})
"""The samplers that cannot search for several objectives."""

RETRYABLE: Mapping[str, str] = {
    "node": "The machine, the Ray worker or the network went away.",
    "port_in_use": "A port was taken.",
    "crash": "The process ended without a result.",
    "weight_sync": "The rollout engine did not get the new weights.",
    "data": "The data could not be read.",
    "unknown": "The trainer could not say what broke.",
}
"""Kinds of failure that may be repeated: those the configuration is not to blame for."""

SYNONYMS: Mapping[str, str] = {"node_lost": "node"}

TOP: Mapping[str, str] = {
    "name": "Name of the job; part of its id and of its paths.",
    "description": "One line for people.",
    "extends": "A shipped space or the path of another space file that this one builds on.",
    "trainer": "What a trial runs.",
    "resources": "What one trial occupies.",
    "search": "The searched parameters.",
    "require": "Conditions that every proposal meets.",
    "objective": "What is good.",
    "objectives": "What is good, where several things are: the answer is then the front that nobody beats.",
    "constraints": "What must hold at the end of a trial.",
    "sampler": "What proposes configurations.",
    "prune": "Pruners, asked in this order.",
    "budget": "What may be spent.",
    "retry": "When an attempt is repeated that the infrastructure broke.",
    "start_from": "Configurations that are tried first.",
    "finalists": "The best configurations run again with fresh seeds before a winner is named.",
    "advisor": "enqueue: advice on finished trials becomes the next trials, within a share of the budget.",
    "strategy": "pbt: the trials are a population, and at each interval the worst go on from the best.",
    "stages": "Searches one after the other, each with its own study; the last one gives the job's answer.",
}
STAGES: Mapping[str, str] = {
    "name": "Name of the stage; part of its study's name and of its trials' directory.",
    "description": "One line for people.",
    "trainer": "What differs from the job's trainer: config and overrides.",
    "resources": "What one trial of this stage occupies, in place of the job's.",
    "search": "The searched parameters; without it those of the stage before.",
    "require": TOP["require"],
    "objective": TOP["objective"],
    "objectives": TOP["objectives"],
    "constraints": TOP["constraints"],
    "sampler": "What proposes configurations, in place of the job's.",
    "prune": TOP["prune"],
    "budget": TOP["budget"],
    "finalists": TOP["finalists"],
    "advisor": TOP["advisor"],
    "start_from": TOP["start_from"],
    "pass": "What the winner must reach, relative to the default configuration or to the stage before if need be.",
    "carry": "What the next stage gets: the winner's values (fix), or the best configurations as its starts (start).",
    "on_fail": "What happens when the criterion is missed: the job fails, or goes on.",
}
WARM_STARTS: Mapping[str, tuple[str, ...]] = {"job": ("job", "top"), "optuna": ("optuna", "study", "top")}
"""First key of an item of ``start_from`` that names an earlier search -> the keys that go with it."""
STAGED = (
    *("search", "require", "objective", "objectives", "constraints", "prune", "budget", "finalists", "advisor"),
    "start_from",
)
"""The keys of a space file that belong into the stages where there are any."""
STAGE_TRAINER = ("config", "overrides")
CARRY = ("as", "top", "scale", "drop")
RESOURCES = ("cpus", "gpus", "memory", "nodes")
PARAMETER = ("float", "int", "choice", "log", "step", "prior", "when")
DOMAINS = ("float", "int", "choice")
OBJECTIVE = ("metric", "direction", "reduce", "smooth")
SAMPLER = ("name", "seed")
BUDGET = ("trials", "parallel", "steps", "wall_clock", "gpu_hours")
FINALISTS = ("top", "seeds")
ADVISORS: Mapping[str, str] = {"enqueue": "Advice on finished trials becomes the next trials."}
ADVISOR = ("share",)
STRATEGIES: Mapping[str, str] = {
    "pbt": "Population based training: the worst take over the best's checkpoint, with perturbed values.",
}
PBT = ("interval", "quantile", "resample_probability", "perturbation")
RETRY = ("attempts", "on")
