"""Whose turn it is: priorities, shares and quotas as pure arithmetic, then over the real store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.access import Caller, Role
from autotune.service.fairness import Use, gpus_of, in_turn, use_of_teams, why_not
from autotune.states import JobState
from autotune.store.values import Job, Team


def job(number: int, *, team: str = "", priority: int = 0, gpus: float = 1, parallel: int = 1) -> Job:
    document = {"resources": {"gpus": gpus}, "budget": {"trials": 4, "parallel": parallel}}
    return Job(
        id=f"j-{number}",
        name="j",
        sequence=number,
        state=JobState.QUEUED,
        requested=None,
        priority=priority,
        owner="",
        team=team,
        document=document,
        source="",
        file="",
        space_hash="",
        created_at=float(number),
        started_at=None,
        ended_at=None,
        error=None,
        directory="",
        mlflow_run=None,
        lease_owner=None,
        lease_token=0,
        lease_expires=None,
    )


def ids(jobs):
    return [one.id for one in jobs]


def test_the_higher_priority_goes_first_then_the_older_job():
    assert ids(in_turn([job(3), job(1), job(2, priority=5)], {}, {})) == ["j-2", "j-1", "j-3"]


def test_the_team_that_uses_less_for_its_share_goes_first():
    queued = [job(1, team="big"), job(2, team="small")]
    used = {"big": Use(gpus=6), "small": Use(gpus=4)}
    assert ids(in_turn(queued, used, {})) == ["j-2", "j-1"]
    assert ids(in_turn(queued, used, {"big": Team(name="big", share=2.0)})) == ["j-1", "j-2"]


def test_a_job_waits_while_its_team_holds_what_it_may():
    queued = [job(1, team="rl", gpus=2, parallel=2), job(2, team="rl", gpus=1)]
    teams = {"rl": Team(name="rl", parallel_gpus=4)}
    assert ids(in_turn(queued, {"rl": Use(gpus=3)}, teams)) == ["j-2"]
    assert "holds 3, and this job needs 4" in why_not(queued[0], {"rl": Use(gpus=3)}, teams)


def test_a_month_that_is_used_up_stops_the_team_but_nobody_else():
    teams = {"rl": Team(name="rl", gpu_hours_a_month=10)}
    queued = [job(1, team="rl"), job(2), job(3, team="rl", gpus=0)]
    assert ids(in_turn(queued, {"rl": Use(gpu_hours=10)}, teams)) == ["j-2", "j-3"]


def test_stages_count_by_the_widest():
    stages = [{"budget": {"parallel": 2}}, {"budget": {"parallel": 4}}, {}]
    assert gpus_of({"resources": {"gpus": 2}, "stages": stages}) == 8


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2, 2), st.integers(0, 4), st.integers(1, 4)), max_size=8),
    st.floats(0, 20),
    st.floats(0, 20),
)
def test_nothing_in_turn_would_exceed_its_teams_quota(jobs, held, quota):
    teams = {"a": Team(name="a", parallel_gpus=quota)}
    queued = [job(n, team=t, priority=p, gpus=g, parallel=w) for n, (t, p, g, w) in enumerate(jobs)]
    for one in in_turn(queued, {"a": Use(gpus=held)}, teams):
        need = gpus_of(one.document)
        assert one.team != "a" or need == 0 or held + need <= quota


ALICE = Caller(name="alice", role=Role.OPERATOR, team="rl", token="a")


def test_what_a_team_uses_is_counted_from_its_jobs(service, source):
    with_gpus = source.replace("budget:", "resources: {gpus: 2}\nbudget:")
    made = service.as_caller(ALICE).submit(with_gpus, "space.yaml")[0]
    with service.store.begin() as work:
        assert use_of_teams(work, 1000.0) == {}
        work.jobs.lease(made.id, "x/1/y", 1000.0, 60.0)
        work.jobs.set_state(made.id, JobState.RUNNING, 1000.0)
        assert use_of_teams(work, 1000.0) == {"rl": Use(gpus=4.0)}


def test_hours_of_another_month_do_not_count(service, source, drive):
    made = service.as_caller(ALICE).submit(source.replace("budget:", "resources: {gpus: 2}\nbudget:"), "s.yaml")[0]
    drive(service, made.id)
    seconds = service.job(made.id).cost_s
    assert seconds > 0
    with service.store.read() as work:
        assert use_of_teams(work, service.clock.now())["rl"].gpu_hours == pytest.approx(seconds * 2 / 3600)
        assert use_of_teams(work, service.clock.now() + 40 * 86400).get("rl", Use()).gpu_hours == 0.0
