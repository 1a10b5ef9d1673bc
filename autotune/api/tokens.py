"""Routes of access: who am I, and, for administrators, tokens and the quotas of teams."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator

from autotune.access import Role
from autotune.api.bodies import LIKE_A_NAME, NewToken, Quota, a_name
from autotune.api.context import Asker, Service
from autotune.api.problems import documented
from autotune.views import CallerView, IssuedTokenView, TeamView, TokenView

router = APIRouter(prefix="/v1", tags=["access"])

TokenId = Annotated[str, Path(max_length=64, description="The public part of a token, as listed.")]
TeamName = Annotated[str, AfterValidator(a_name), Path(json_schema_extra=LIKE_A_NAME, description="The team's name.")]


@router.get("/me", operation_id="whoAmI", responses=documented(401))
def who_am_i(caller: Asker) -> CallerView:
    """Shows who the service takes you to be."""
    return CallerView(name=caller.name, role=str(caller.role), team=caller.team)


@router.get("/tokens", operation_id="listTokens", responses=documented(401, 403))
def list_tokens(service: Service, caller: Asker) -> list[TokenView]:
    """Lists all tokens, without their secrets."""
    return service.access.tokens(caller)


@router.post("/tokens", operation_id="createToken", status_code=201, responses=documented(400, 401, 403, 409, 413))
def create_token(service: Service, caller: Asker, wanted: NewToken) -> IssuedTokenView:
    """Makes a token; its text is told this once."""
    return service.access.issue(caller, wanted.name, Role(wanted.role), wanted.team, wanted.expires_s)


@router.delete("/tokens/{token_id}", operation_id="revokeToken", responses=documented(401, 403, 404, 409))
def revoke_token(service: Service, caller: Asker, token_id: TokenId) -> TokenView:
    """Takes a token back; it opens nothing from now on."""
    return service.access.revoke(caller, token_id)


@router.get("/teams", operation_id="listTeams", responses=documented(401, 403))
def list_teams(service: Service, caller: Asker) -> list[TeamView]:
    """Lists the teams that have a quota or a share of their own."""
    return service.access.teams(caller)


@router.put("/teams/{team}", operation_id="putTeam", responses=documented(400, 401, 403, 413))
def put_team(service: Service, caller: Asker, team: TeamName, quota: Quota) -> TeamView:
    """Sets what a team may use."""
    wanted = TeamView(
        name=team,
        parallel_gpus=quota.parallel_gpus,
        gpu_hours_a_month=quota.gpu_hours_a_month,
        share=quota.share,
    )
    return service.access.put_team(caller, wanted)
