"""The JSON Schema of the space file, for editors that complete and check while one types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from autotune.spec import known, plugins
from autotune.spec.advisor import SHARE
from autotune.spec.aliases import ALIASES
from autotune.spec.bounds import COUNT, NOT_NEGATIVE, POSITIVE, Bounds
from autotune.spec.metrics import READERS
from autotune.spec.objectives import MAX_OBJECTIVES
from autotune.spec.pruning import PRUNERS, Option, OptionKind
from autotune.spec.sections import CONSTRAINT, FINALISTS_SEEDS, FINALISTS_TOP, NAME
from autotune.spec.stages import MAX_STAGES
from autotune.spec.strategy import PERTURBATION, PROBABILITY, QUANTILE
from autotune.spec.trainer import BACKENDS, KEYS
from autotune.spec.types import Carry, Direction, OnFail, Reduce
from autotune.spec.values import JsonValue

Schema: TypeAlias = dict[str, JsonValue]

_TEXT: Schema = {"type": "string"}
_DURATION = r"^(\d+(\.\d+)?\s*[smhd]\s*)+$"
_SCALAR: Schema = {"type": ["number", "string", "boolean", "null"]}


def space_schema() -> Schema:
    """The schema (draft 2020-12). A file that uses ``extends`` may leave out what it inherits."""
    plain: list[JsonValue] = ["name", "search", "budget"]
    staged: list[JsonValue] = ["name", "stages"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "autotune space file",
        **_mapping({key: {**_section(key), "description": text} for key, text in known.TOP.items()}),
        "if": {"not": {"required": ["extends"]}},
        "then": {"anyOf": [{"required": plain, **_one_or_several()}, {"required": staged}]},
        "$defs": {"parameter": _parameter()},
    }


def _section(key: str) -> Schema:
    sections: Mapping[str, Schema] = {
        "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
        "description": _TEXT,
        "extends": _TEXT,
        "trainer": _trainer(),
        "resources": _mapping(
            {
                "cpus": _number(POSITIVE),
                "gpus": _number(NOT_NEGATIVE),
                "memory": {"type": ["string", "integer"]},
                "nodes": {"const": 1},
            }
        ),
        "search": _search(),
        "require": {"type": "array", "items": _TEXT},
        "objective": _objective(),
        "objectives": {"type": "array", "minItems": 1, "maxItems": MAX_OBJECTIVES, "items": _objective()},
        "constraints": {"type": "array", "items": {"type": "string", "pattern": f"^{CONSTRAINT.pattern}$"}},
        "sampler": _mapping(
            {"name": _words([*known.SAMPLERS, *plugins.names(plugins.SAMPLERS)]), "seed": _whole(NOT_NEGATIVE)}
        ),
        "prune": {"type": "array", "items": {"anyOf": [_bare_pruners(), _pruners()]}},
        "budget": _mapping(
            {
                "trials": _whole(COUNT),
                "parallel": _whole(COUNT),
                "steps": _whole(COUNT),
                "wall_clock": {"type": "string", "pattern": _DURATION},
                "gpu_hours": _number(POSITIVE),
            }
        ),
        "retry": _mapping(
            {
                "attempts": _whole(NOT_NEGATIVE),
                "on": {"type": "array", "items": _words([*known.RETRYABLE, *known.SYNONYMS])},
            }
        ),
        "finalists": _mapping({"top": _whole(FINALISTS_TOP), "seeds": _whole(FINALISTS_SEEDS)}),
        "advisor": {"anyOf": [_words(known.ADVISORS), _mapping({"enqueue": _mapping({"share": _number(SHARE)})})]},
        "strategy": {**_mapping({"pbt": _pbt()}), "required": ["pbt"]},
        "start_from": {"type": "array", "items": {"anyOf": [{"const": "default"}, {"type": "object"}]}},
    }
    return _stages() if key == "stages" else sections[key]


def _pbt() -> Schema:
    numbers: Mapping[str, Schema] = {
        "interval": {**_whole(COUNT), "description": "Steps from one generation to the next."},
        "quantile": {**_number(QUANTILE), "description": "Part that goes on from as large a part of the best."},
        "resample_probability": {**_number(PROBABILITY), "description": "How often a value is drawn anew."},
        "perturbation": {**_number(PERTURBATION), "description": "Factor, or its inverse, of a perturbed number."},
    }
    return {**_mapping(numbers), "required": ["interval"]}


def _objective() -> Schema:
    return _mapping(
        {"metric": _TEXT, "direction": _words(Direction), "reduce": _words(Reduce), "smooth": _whole(COUNT)}
    )


def _one_or_several() -> Schema:
    return {"anyOf": [{"required": ["objective"]}, {"required": ["objectives"]}]}


def _stages() -> Schema:
    """The list of stages; a stage has the sections of a job and a few of its own."""
    texts: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
    carry = _mapping(
        {
            "as": _words(Carry),
            "top": _whole(COUNT),
            "scale": {"type": "object", "additionalProperties": _number(POSITIVE)},
            "drop": {"type": "array", "items": _TEXT},
        }
    )
    own: Mapping[str, Schema] = {
        "trainer": _mapping({"config": _TEXT, "overrides": {"type": "object"}}),
        "pass": texts,
        "carry": {"anyOf": [_words(Carry), carry]},
        "on_fail": _words(OnFail),
    }
    keys: Schema = {
        key: {**(own[key] if key in own else _section(key)), "description": text} for key, text in known.STAGES.items()
    }
    required: list[JsonValue] = ["name", "budget"]
    stage: Schema = {**_mapping(keys), "required": required, **_one_or_several()}
    return {"type": "array", "minItems": 1, "maxItems": MAX_STAGES, "items": stage}


def _trainer() -> Schema:
    texts: Schema = {"type": "array", "minItems": 1, "items": _SCALAR}
    names: Schema = {"anyOf": [{"type": "array", "minItems": 1, "items": _TEXT}, {"type": "object"}]}
    metrics: Schema = {
        "read": {"enum": list(READERS), "description": " ".join(f"{name}: {text}" for name, text in READERS.items())},
        "file": {**_TEXT, "description": "File within {output_dir}; without it the program's output is read."},
        "step": {**_TEXT, "default": "step", "description": "Field, group or column that holds the step."},
        "patterns": {"type": "array", "minItems": 1, "items": _TEXT, "description": "For regex, with named groups."},
        "names": {**names, "description": "The metrics; metric: field where the two are called differently."},
    }
    shapes: Mapping[str, Schema] = {
        "backend": _words(BACKENDS),
        "config": _TEXT,
        "overrides": {"type": "object"},
        "python": _TEXT,
        "command": {"anyOf": [texts, _TEXT]},
        "parameters": {"type": "object", "minProperties": 1, "additionalProperties": _SCALAR},
        "metrics": _mapping(metrics),
        "env": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "workdir": _TEXT,
        "steps": _whole(COUNT),
        "stall": {"type": "string", "pattern": _DURATION},
    }
    return {
        **_mapping({key: {**shapes[key], "description": text} for key, (_, text) in KEYS.items()}),
        "allOf": [_only_for(backend) for backend in BACKENDS],
    }


def _only_for(backend: str) -> Schema:
    """Where a file names this backend, the keys of the others are wrong."""
    foreign: Schema = {key: False for key, (backends, _) in KEYS.items() if backend not in backends}
    return {
        "if": {"properties": {"backend": {"const": backend}}, "required": ["backend"]},
        "then": {"properties": foreign},
    }


def _search() -> Schema:
    searched: Schema = {"$ref": "#/$defs/parameter"}
    return {
        "type": "object",
        "minProperties": 1,
        "properties": {short: {**searched, "description": full} for short, full in ALIASES.items()},
        "additionalProperties": searched,
        "$comment": "Keys are full paths of the configuration tree or the short names listed here.",
    }


def _parameter() -> Schema:
    pair: Schema = {"type": "array", "minItems": 2, "maxItems": 2}
    parameter = _mapping(
        {
            "float": {**pair, "items": {"type": ["number", "string"]}},
            "int": {**pair, "items": {"type": ["number", "string"]}},
            "choice": {"type": "array", "minItems": 1, "items": _SCALAR},
            "log": {"type": "boolean"},
            "step": _number(POSITIVE),
            "prior": _SCALAR,
            "when": _TEXT,
        }
    )
    return {"anyOf": [parameter, {"type": "null"}]}


def _bare_pruners() -> Schema:
    own = [name for name, kind in PRUNERS.items() if not any(o.required for o in kind.options.values())]
    return _words([*own, *(name for name in plugins.names(plugins.PRUNERS) if name not in PRUNERS)])


def _pruners() -> Schema:
    properties: Schema = {}
    for name, kind in PRUNERS.items():
        options = _mapping({key: _option(option) for key, option in kind.options.items()})
        options["required"] = [key for key, option in kind.options.items() if option.required]
        properties[name] = {**options, "description": kind.description}
    for name in plugins.names(plugins.PRUNERS):
        # A schema must not import what it describes: the options of a plugin are checked when a file names it.
        properties.setdefault(name, {"type": ["object", "null"]})
    return {**_mapping(properties), "minProperties": 1, "maxProperties": 1}


def _option(option: Option) -> Schema:
    schema = {
        OptionKind.METRIC: _TEXT,
        OptionKind.NUMBER: _number(option.bounds),
        OptionKind.WHOLE: _whole(option.bounds),
        OptionKind.WORD: _words(option.words),
    }[option.kind]
    described: Schema = {**schema, "description": option.description}
    return described if option.default is None else {**described, "default": option.default}


def _mapping(properties: Mapping[str, JsonValue]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _words(words: Iterable[str]) -> Schema:
    return {"enum": [str(word) for word in words]}


def _number(bounds: Bounds) -> Schema:
    return {"type": "number", **bounds.schema()}


def _whole(bounds: Bounds) -> Schema:
    return {"type": "integer", **bounds.schema()}
