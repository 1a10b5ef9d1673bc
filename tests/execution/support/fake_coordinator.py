"""A coordinator for tests: launches a list of configurations, retries once, stops where it is told to."""

from dataclasses import dataclass, field

from autotune.search.types import Attempt, Continue, Done, EndKind, Launch, Reason, Stop, Wait

STOP = Stop(reason=Reason(pruner="test", text="told to"))


@dataclass
class FakeCoordinator:
    configs: list[dict]
    parallel: int = 2
    stop_at: dict[int, int] = field(default_factory=dict)
    retry: tuple[EndKind, ...] = (EndKind.CRASH, EndKind.NODE)
    attempts: int = 2
    cancelled: bool = False
    error_at: tuple[str, int] | None = None

    def __post_init__(self):
        self.queue = list(range(len(self.configs)))
        self.running: dict[int, Attempt] = {}
        self.tries = dict.fromkeys(self.queue, 0)
        self.steps: dict[int, list[int]] = {number: [] for number in self.queue}
        self.costs: dict[int, list[float]] = {number: [] for number in self.queue}
        self.silent_heartbeats: dict[int, int] = dict.fromkeys(self.queue, 0)
        self.checkpoints: list[tuple[int, int, str]] = []
        self.ends: list[tuple[int, int, object]] = []
        self.most = 0

    def next_trial(self, now):
        if self.cancelled:
            return Wait() if self.running else Done()
        if len(self.running) >= self.parallel:
            return Wait()
        if not self.queue:
            return Wait() if self.running else Done()
        number = self.queue.pop(0)
        self.tries[number] += 1
        attempt = Attempt(trial=number, number=self.tries[number], token=f"t-{number}-{self.tries[number]}")
        self.running[number] = attempt
        self.most = max(self.most, len(self.running))
        heard = max(self.steps[number], default=-1)
        return Launch(attempt=attempt, config=self.configs[number], directory=f"{number:04d}", heard=heard)

    def on_metrics(self, attempt, step, metrics, cost_s, now):
        assert self.running[attempt.trial] == attempt
        if self.error_at == ("metrics", step):
            raise ZeroDivisionError("the database is gone")
        self.steps[attempt.trial].append(step)
        self.costs[attempt.trial].append(cost_s)
        return STOP if self.cancelled or self.stop_at.get(attempt.trial) == step else Continue()

    def on_heartbeat(self, attempt, cost_s, now):
        assert self.running[attempt.trial] == attempt
        self.silent_heartbeats[attempt.trial] += bool(self.steps[attempt.trial])
        return STOP if self.cancelled else Continue()

    def on_checkpoint(self, attempt, step, path, now):
        self.checkpoints.append((attempt.trial, step, path))

    def on_end(self, attempt, outcome, now):
        if self.running.get(attempt.trial) != attempt:
            return
        del self.running[attempt.trial]
        self.ends.append((attempt.trial, attempt.number, outcome))
        if outcome.kind in self.retry and self.tries[attempt.trial] < self.attempts:
            self.queue.insert(0, attempt.trial)

    def end_of(self, number):
        return [outcome for trial, _, outcome in self.ends if trial == number]
