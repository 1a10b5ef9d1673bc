"""Jobs and leases against a model of a dozen lines: whatever the order of the calls, both agree."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from autotune.errors import ConflictError, IllegalTransitionError, LeaseLostError
from autotune.search.types import Trial
from autotune.states import JOB_ENDS, JobState, TrialState, check_job_transition
from autotune.store import Lease, NewJob, SqlBook, Store

OWNERS = st.sampled_from(["a", "b"])


class JobMachine(RuleBasedStateMachine):
    template: Path
    leases: Bundle[Lease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy(self.template, self.folder / "x.db")
        self.store = Store(f"sqlite:///{self.folder / 'x.db'}")
        self.now = 0.0
        self.state = JobState.QUEUED
        self.owner: str | None = None
        self.token = 0
        self.expires = 0.0
        self.events = 1
        self.saves = 0

    @initialize()
    def add(self) -> None:
        with self.store.begin() as work:
            self.job = work.jobs.add(NewJob(name="job", document={}), self.now).id
            self.study = work.jobs.studies(self.job)[0].id

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=leases, owner=OWNERS)
    def lease(self, owner: str) -> Lease | None:
        free = self.owner is None or self.expires <= self.now
        with self.store.begin() as work:
            if not free:
                with pytest.raises(ConflictError):
                    work.jobs.lease(self.job, owner, self.now, 10.0)
                return Lease(job=self.job, owner=owner, token=-1, expires=0.0)
            lease = work.jobs.lease(self.job, owner, self.now, 10.0)
        self.owner, self.token, self.expires = owner, self.token + 1, self.now + 10.0
        assert lease == Lease(job=self.job, owner=owner, token=self.token, expires=self.expires)
        return lease

    def counts(self, lease: Lease) -> bool:
        return (lease.owner, lease.token) == (self.owner, self.token)

    def refused(self, lease: Lease) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if self.counts(lease) else pytest.raises(LeaseLostError)

    @rule(lease=leases)
    def renew(self, lease: Lease) -> None:
        with self.refused(lease), self.store.begin() as work:
            work.jobs.renew(lease, self.now, 10.0)
        if self.counts(lease):
            self.expires = self.now + 10.0

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        free_already = self.owner is None and lease.token == self.token
        with contextlib.nullcontext() if free_already else self.refused(lease), self.store.begin() as work:
            work.jobs.release(lease)
        if self.counts(lease):
            self.owner = None

    @rule(owner=OWNERS)
    def revoke(self, owner: str) -> None:
        with self.store.begin() as work:
            assert work.jobs.revoke(self.job, owner) == (owner == self.owner)
        if owner == self.owner:
            self.owner = None

    @rule(lease=leases)
    def save(self, lease: Lease) -> None:
        trial = Trial(number=self.saves, state=TrialState.RUNNING, source="sampler", params={}, config={})
        with self.refused(lease):
            SqlBook(self.store, self.study, lease).save(trial)
        self.saves += self.counts(lease)

    @rule(lease=leases, new=st.sampled_from(JobState))
    def change_as_a_driver(self, lease: Lease, new: JobState) -> None:
        if not self.counts(lease):
            with pytest.raises(LeaseLostError), self.store.begin() as work:
                work.jobs.set_state(self.job, new, self.now, lease=lease)
            return
        self.change(new, lease)

    @rule(new=st.sampled_from(JobState))
    def change_as_the_service(self, new: JobState) -> None:
        self.change(new, None)

    def change(self, new: JobState, lease: Lease | None) -> None:
        try:
            check_job_transition(self.job, self.state, new)
        except IllegalTransitionError:
            with pytest.raises(IllegalTransitionError), self.store.begin() as work:
                work.jobs.set_state(self.job, new, self.now, lease=lease)
            return
        with self.store.begin() as work:
            work.jobs.set_state(self.job, new, self.now, lease=lease)
        self.state = new
        self.events += 1

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "job"):
            return
        with self.store.read() as work:
            job = work.jobs.get(self.job)
            due, abandoned = work.jobs.next_queued(self.now), work.jobs.abandoned(self.now)
            assert len(work.trials.events(self.job)) == self.events
            assert len(work.trials.list(self.job)) == self.saves
        assert (job.state, job.lease_owner, job.lease_token) == (self.state, self.owner, self.token)
        assert (job.ended_at is not None) == (self.state in JOB_ENDS)
        free = self.owner is None or self.expires <= self.now
        assert (due is not None) == (free and self.state is JobState.QUEUED)
        at_rest = self.state is JobState.PAUSED and self.owner is None
        assert bool(abandoned) == (free and not at_rest and self.state not in {*JOB_ENDS, JobState.QUEUED})

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


def test_jobs_and_leases_agree_with_their_model(template: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    JobMachine.template = template
    run_state_machine_as_test(
        JobMachine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None, derandomize=True)
    )
