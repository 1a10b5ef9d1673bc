"""The JSON bodies that routes take, apart from space files. An unknown field is an error, never ignored."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from autotune.access import NAME, NAME_IN_WORDS

_STRICT = ConfigDict(extra="forbid", frozen=True)


LIKE_A_NAME: dict[str, Any] = {"pattern": f"^{NAME}$"}


def a_name(text: str) -> str:
    """The text, if a token's holder or a team may be called so.

    Raises:
        ValueError: If not.
    """
    if not re.fullmatch(NAME, text):
        raise ValueError(f"allowed are {NAME_IN_WORDS}")
    return text


Name = Annotated[str, AfterValidator(a_name), Field(json_schema_extra=LIKE_A_NAME)]
"""The name of a token's holder or of a team."""


class BudgetChanges(BaseModel):
    """The parts of a budget that may change while a job runs; ``null`` takes a limit away."""

    model_config = _STRICT

    trials: Annotated[int | None, Field(description="Number of trials.", examples=[60])] = None
    parallel: Annotated[int | None, Field(description="Trials at a time.", examples=[8])] = None
    gpu_hours: Annotated[float | None, Field(description="GPUs times hours.", examples=[300])] = None
    wall_clock: Annotated[str | None, Field(description="A duration with its unit.", examples=["24h"])] = None


class JobChanges(BaseModel):
    """What is to change; what is left out stays as it is."""

    model_config = _STRICT

    priority: Annotated[int | None, Field(description="Jobs with a higher one are started first.", examples=[5])] = None
    budget: BudgetChanges | None = None
    search: Annotated[
        dict[Annotated[str, Field(max_length=200)], Any] | None,
        Field(
            max_length=200,
            description="Parameter -> its domain as in a space file, null = no longer searched; for a job at rest.",
            examples=[{"lr": {"float": [1e-7, 1e-5], "log": True}}],
        ),
    ] = None
    stage: Annotated[
        str | None, Field(max_length=63, description="The stage whose search is meant; null = where the job is.")
    ] = None


class WantedTrial(BaseModel):
    """A configuration to try, by full paths or short names."""

    model_config = _STRICT

    params: Annotated[
        dict[Annotated[str, Field(max_length=200)], Any],
        Field(
            max_length=200,
            description="Searched parameter -> value.",
            examples=[{"lr": 1e-6, "algorithm.kl_ctrl.kl_coef": 0.01}],
        ),
    ]


class WantedModel(BaseModel):
    """A model version to be made of the best checkpoint."""

    model_config = _STRICT

    name: Annotated[
        str | None, Field(max_length=250, description="Name of the registered model; null = the job's name.")
    ] = None


class NewToken(BaseModel):
    """A token to be made."""

    model_config = _STRICT

    name: Annotated[Name, Field(description="Whose it is.", examples=["alice"])]
    role: Annotated[Literal["viewer", "operator", "admin"], Field(description="What it is for.")] = "viewer"
    team: Annotated[Name | Literal[""], Field(description="Whose jobs it may act on.", examples=["rl"])] = ""
    expires_s: Annotated[
        float | None, Field(gt=0, le=1e10, description="Seconds until it expires; null = never.", examples=[7776000])
    ] = None


class Quota(BaseModel):
    """What a team may use; ``null`` = no limit."""

    model_config = _STRICT

    parallel_gpus: Annotated[float | None, Field(ge=0, le=1e6, description="GPUs at a time.", examples=[16])] = None
    gpu_hours_a_month: Annotated[
        float | None, Field(ge=0, le=1e9, description="GPU-hours in a calendar month (UTC).", examples=[2000])
    ] = None
    share: Annotated[float, Field(gt=0, le=1e6, description="Weight where several teams wait.", examples=[2.0])] = 1.0
