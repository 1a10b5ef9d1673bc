import json
import random
from dataclasses import replace

import pytest

from autotune.errors import ConflictError
from tests.fakes import make_job, make_stages
from tests.web.support import fill_job, make_curve, reason, trial_from

ROWS = "document.querySelectorAll('.trials tbody tr').length"
PLOTTED = "document.querySelector('#curves .js-plotly-plot .main-svg')"
EVENTS = "document.querySelectorAll('.events li').length"


def job_address(job_id):
    from urllib.parse import quote

    return f"#/jobs/{quote(job_id, safe='')}"


def traces(page, section="curves"):
    """Name -> number of trials drawn in it, in the first panel."""
    script = f"""Object.fromEntries(document.querySelector('#{section} .plot').data
        .filter((trace) => (trace.yaxis ?? 'y') === 'y' && trace.mode !== 'markers' && trace.name)
        .map((trace) => [trace.name, new Set(trace.customdata ?? []).size]))"""
    return page.evaluate(script)


def test_all_jobs_are_listed_and_lead_to_their_pages(service, open_page):
    fill_job(service, "demo-1", trials=12, steps=40)
    service.add(make_job("waiting-2"))
    page = open_page()
    page.wait("document.querySelectorAll('table.jobs tbody tr').length === 2")
    assert "12 of 12" in page.text("table.jobs")
    assert "connected" in page.text("#connection")
    page.click("a[href='#/jobs/demo-1']")
    page.wait(f"{ROWS} === 12")
    assert page.evaluate("document.title") == "demo-1 - autotune"


def test_an_empty_service_says_how_to_start(service, open_page):
    page = open_page()
    page.wait("document.body.innerText.includes('autotune launch quickstart')")


def test_a_job_shows_its_curves_with_limits_its_plane_and_its_parameters(service, open_page):
    job = fill_job(service, "demo-1", trials=24, steps=40)
    page = open_page(job_address("demo-1"), height=4000)
    page.wait(PLOTTED)
    page.wait(f"{EVENTS} > 40 && document.querySelectorAll('.js-plotly-plot .main-svg').length >= 3")
    drawn = traces(page)
    assert drawn["completed"] == job.trials["completed"]
    assert drawn["pruned"] == job.trials["pruned"]
    layout = page.evaluate("document.querySelector('#curves .plot').layout")
    assert {shape["y0"] for shape in layout["shapes"]} == {0.3, 0.4}, "the constraint and the ceiling"
    assert [layout[axis]["title"]["text"] for axis in ("yaxis", "yaxis2", "yaxis3")] == [
        "eval/reward",
        "reward/mean",
        "kl/actor_ref",
    ]
    front = page.evaluate("document.querySelector('#plane .plot').data.find((t) => t.name === 'Pareto front').y")
    assert front == sorted(front)
    assert front[-1] == pytest.approx(job.best_value)
    assert "target_kl" in page.text("#parallel")
    assert f"trial {job.best_trial}" in page.text(".tiles")
    assert "of 4" in page.text(".tiles"), "GPU-hours of the budget"


def test_stopped_trials_fade_and_say_why_on_hover(service, open_page):
    fill_job(service, "demo-1", trials=24, steps=40)
    page = open_page(job_address("demo-1"))
    page.wait(PLOTTED)
    found = page.evaluate(
        """document.querySelector('#curves .plot').data.filter((trace) => trace.name === 'pruned')
        .map((trace) => ({mode: trace.mode, opacity: trace.opacity, symbol: trace.marker?.symbol, text: trace.text}))"""
    )
    line, marks = found[0], found[1]
    assert line["opacity"] < 0.5
    assert (marks["mode"], marks["symbol"]) == ("markers", "x-thin")
    assert any("kl_ceiling: kl/actor_ref was 0.45, above 0.4" in text.replace("<br>", " ") for text in marks["text"])
    assert "asha" in page.text("#pruning")
    assert "kl_ceiling" in page.text("#pruning")


def test_news_of_a_running_job_arrive_without_a_reload(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait(PLOTTED)
    page.wait(f"{ROWS} === 4")
    why = reason("asha", "rank 9 of 12 at rung 16", rung=16, threshold=0.5)
    curve = make_curve(4, 16, 4)
    service.put_trial("demo-1", trial_from(4, random.Random(4), curve, "pruned", reason=why), curve)
    service.record("demo-1", "trial.state", "trial 4 is pruned: rank 9 of 12", 4, state="pruned")
    page.wait(f"{ROWS} === 5 && document.querySelector('.trials').innerText.includes('rank 9 of 12')")
    page.wait("document.querySelector('.events').innerText.includes('trial 4 is pruned')")
    page.wait("document.querySelector('#curves .plot').data.some((t) => (t.customdata ?? []).includes(4))")
    service.change("demo-1", state="completed", ended_at=1_700_000_600.0)
    service.record("demo-1", "job.state", "running -> completed", to="completed")
    page.wait("document.querySelector('.job-head').innerText.includes('completed')")
    assert page.evaluate("document.querySelector('#cancel').disabled"), "nothing is left to cancel"


def test_only_what_moves_is_read_again(service, open_page):
    fill_job(service, "demo-1", trials=30, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait(PLOTTED)
    page.wait(f"{EVENTS} === 58")
    service.calls.clear()
    looks = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/curves?')).length"
    before = page.evaluate(looks)
    page.wait(f"{looks} >= {before} + 2")
    asked = {trial for call in service.calls if call[0] == "curves" for trial in call[1]}
    assert asked == {28, 29}, "the running trials"


def test_a_hidden_page_rests_and_catches_up_when_it_is_looked_at(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait(f"{EVENTS} === 6")
    hide = (
        "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}});"
        " document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.evaluate(hide.format("true"))
    service.record("demo-1", "trial.checkpoint", "written while nobody looked", 3)
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 700))")
    assert page.evaluate(EVENTS) == 6, "the feed looks every 50 ms here: a page that follows had it long ago"
    page.evaluate(hide.format("false"))
    page.wait("document.querySelector('.events').innerText.includes('written while nobody looked')")


def test_a_job_is_cancelled_after_a_question_and_can_be_resumed(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait("!document.querySelector('#cancel').disabled")
    page.click("#cancel")
    page.wait("document.querySelector('dialog[open]')")
    page.press("Enter", 13)
    page.wait("!document.querySelector('dialog[open]')")
    assert service.store["demo-1"].state == "running", "the button that has the focus is No"
    page.click("#cancel")
    page.wait("document.querySelector('dialog[open]')")
    page.click("#question-yes")
    page.wait("document.querySelector('.job-head').innerText.includes('cancelled')")
    assert service.store["demo-1"].state == "cancelled"
    page.wait("!document.querySelector('#resume').disabled")
    page.click("#resume")
    page.wait("document.querySelector('.job-head').innerText.includes('queued')")
    assert service.store["demo-1"].state == "queued"


def test_a_running_job_is_paused_resumed_and_stopped(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait("!document.querySelector('#pause').disabled")
    assert page.evaluate("document.querySelector('#resume').disabled")
    page.click("#pause")
    page.wait("document.querySelector('.job-head').innerText.includes('paused')")
    page.wait("!document.querySelector('#resume').disabled")
    page.click("#resume")
    page.wait("document.querySelector('.job-head').innerText.includes('running')")
    page.click("#stop")
    page.wait("document.querySelector('dialog[open]')")
    page.click("#question-yes")
    page.wait("document.querySelector('.job-head').innerText.includes('stopping')")
    assert service.store["demo-1"].state == "stopping"
    assert page.evaluate("document.querySelector('#enqueue').disabled")


def test_a_configuration_is_enqueued_from_the_values_of_the_picked_trial(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    page = open_page(job_address("demo-1"))
    page.wait("!document.querySelector('#enqueue').disabled")
    page.evaluate("document.querySelector('.trials tbody tr').click()")
    page.click("#enqueue")
    page.wait("document.querySelector('#enqueue-form[open]')")
    page.evaluate("document.querySelector('#enqueue-fields [name=lr]').value = '0.0002'")
    page.evaluate("document.querySelector('#enqueue-fields [name=\"algorithm.clip_ratio\"]').value = ''")
    page.evaluate("document.querySelector('#enqueue-fields [name=\"trainer.mini_batch_size\"]').value = '1'")
    page.click("#enqueue-yes")
    page.wait("document.querySelector('#messages').innerText.includes('enqueued')")
    params = service.events_of["demo-1"][-1].data["params"]
    assert (params["lr"], params["trainer.mini_batch_size"]) == (0.0002, 32)
    assert "algorithm.clip_ratio" not in params


def test_the_form_for_a_configuration_can_be_given_up(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    before = len(service.events_of["demo-1"])
    page = open_page(job_address("demo-1"))
    page.wait("!document.querySelector('#enqueue').disabled")
    page.click("#enqueue")
    page.wait("document.querySelector('#enqueue-form[open]')")
    page.click("#enqueue-no")
    page.wait("!document.querySelector('dialog[open]')")
    assert len(service.events_of["demo-1"]) == before


def test_a_refusal_is_shown_with_its_fix(service, open_page, browser):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")

    def refuse(job_id):
        raise ConflictError("the job is completed already.", hint="See its result with: autotune best demo-1")

    service.cancel = refuse
    page = open_page(job_address("demo-1"))
    page.wait("!document.querySelector('#cancel').disabled")
    page.click("#cancel")
    page.click("#question-yes")
    page.wait("document.querySelector('#messages').innerText.includes('completed already')")
    assert "autotune best demo-1" in page.text("#messages")
    assert [error for error in page.errors if "409" not in error] == []
    page.errors.clear()


def test_names_from_outside_are_text_and_never_markup(service, open_page):
    name = "a'<img src=x onerror=alert(1)> & 🚀-1"
    hostile = "<script>alert(1)</script><b>bold</b>"
    fill_job(service, name, trials=4, steps=40)
    trial = service.trials_of[name][1]
    curve = make_curve(1, 12, 1)
    bad = trial_from(1, random.Random(1), curve, "pruned", reason=reason("asha", hostile), params={hostile: hostile})
    service.put_trial(name, bad, curve)
    service.change(name, description=hostile)
    service.record(name, "trial.state", hostile, trial.number)
    page = open_page()
    page.wait("document.querySelector('table.jobs a')")
    assert page.text("table.jobs a") == name
    page.click("table.jobs a")
    page.wait(f"{ROWS} === 4")
    page.wait(PLOTTED)
    page.evaluate("document.querySelectorAll('.trials .link')[1].click()")
    page.wait("!document.querySelector('#detail').hidden")
    page.wait(f"document.querySelector('.events').innerText.includes({json.dumps(hostile)})")
    for selector in (".job-head", "#detail", ".trials", "#pruning"):
        assert hostile in page.text(selector), selector
    assert page.evaluate("document.querySelectorAll('main b:not(.events b), main img, main script').length") == 0


def test_a_picked_trial_shows_everything_and_the_keyboard_walks_through_them(service, open_page):
    fill_job(service, "demo-1", trials=12, steps=40)
    page = open_page(job_address("demo-1"))
    page.wait(PLOTTED)
    page.press("j", 74)
    page.press("j", 74)
    page.wait("document.querySelector('#detail').innerText.includes('Trial 1')")
    assert "trainer.optim.lr" in page.text("#detail")
    page.wait("document.querySelector('#curves .plot').data.some((trace) => trace.name === 'picked')")
    page.press("k", 75)
    page.wait("document.querySelector('#detail').innerText.includes('Trial 0')")
    page.press("Escape", 27)
    page.wait("document.querySelector('#detail').hidden")
    page.evaluate("document.querySelectorAll('.trials .link')[3].focus()")
    page.press("Enter", 13)
    page.wait("document.querySelector('#detail').innerText.includes('Trial 3')")
    assert page.evaluate("document.activeElement.textContent") == "3", "the focus stays where it was"


def test_the_table_sorts_and_filters(service, open_page):
    job = fill_job(service, "demo-1", trials=24, steps=40)
    page = open_page(job_address("demo-1"))
    page.wait(f"{ROWS} === 24")
    page.evaluate("document.querySelector('th.c-value button').click()")
    values = page.evaluate("[...document.querySelectorAll('td.c-value')].map((cell) => Number(cell.textContent))")
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
    assert values[len(known) :] == [None] * (len(values) - len(known)), "what has no value comes last"
    assert page.evaluate("document.querySelector('th.c-value').getAttribute('aria-sort')") == "descending"
    page.evaluate(
        "(() => { const s = document.querySelector('#state-filter'); s.value = 'pruned';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert page.evaluate(ROWS) == job.trials["pruned"]


def test_a_job_without_anything_says_what_is_missing(service, open_page):
    service.add(make_job("demo-1"))
    page = open_page(job_address("demo-1"))
    page.wait("document.querySelector('#curves').innerText.includes('No trial has reported a step yet')")
    text = page.text("main")
    for sentence in ("No trial has started yet", "No pruner has stopped a trial yet", "Nothing has happened yet"):
        assert sentence in text, sentence


def test_one_trial_and_numbers_that_are_not_finite_are_no_obstacle(service, open_page):
    job = fill_job(service, "demo-1", trials=1, steps=40)
    nothing = {name: [None] * 40 for name in ("reward/mean", "kl/actor_ref", "eval/reward")}
    service.curves_of[job.id][0] = make_curve(0, 40, 0).__class__(trial=0, steps=list(range(1, 41)), metrics=nothing)
    trial = service.trials_of[job.id][0]
    empty = trial_from(
        0, random.Random(0), make_curve(0, 40, 0), "completed", value=float("nan"), metrics={"kl/actor_ref": None}
    )
    service.put_trial(job.id, empty)
    service.change(job.id, best_trial=None, best_value=None, default_value=float("nan"))
    page = open_page(job_address("demo-1"), height=3000)
    page.wait(f"{ROWS} === 1")
    page.wait("document.querySelector('#curves').innerText.includes('No trial has reported a step yet')")
    page.wait("document.querySelector('#parallel').innerText.includes('Two trials are needed')")
    assert trial.number == 0


def test_an_unknown_job_and_a_broken_address_are_explained(service, open_page):
    page = open_page(job_address("nothing-9"))
    page.wait("document.querySelector('main .problem').innerText.includes('nothing-9')")
    assert "autotune jobs" in page.text("main .problem")
    assert [error for error in page.errors if "404" not in error] == []
    page.errors.clear()
    page.evaluate("location.hash = '#/jobs/%E0%A4%A'")
    page.wait("document.querySelector('main h1').innerText === 'Jobs'")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_theme_of_the_system_and_the_person(service, open_page, dark):
    fill_job(service, "demo-1", trials=4, steps=40)
    page = open_page(job_address("demo-1"), dark=dark)
    page.wait(PLOTTED)
    paper = "getComputedStyle(document.querySelector('section')).backgroundColor"
    plot = "document.querySelector('#curves .plot').layout.paper_bgcolor"
    light, night = ("rgb(255, 255, 255)", "#ffffff"), ("rgb(22, 29, 38)", "#161d26")
    assert (page.evaluate(paper), page.evaluate(plot)) == (night if dark else light)
    while page.text("#theme") != f"Theme: {'light' if dark else 'dark'}":
        page.click("#theme")
    other = light if dark else night
    page.wait(f"{paper} === {json.dumps(other[0])} && {plot} === {json.dumps(other[1])}")


def test_nothing_sticks_out_of_a_phone(service, open_page):
    fill_job(service, "a-job-with-a-name-that-is-much-longer-than-any-phone-is-wide-1", trials=12, steps=40)
    page = open_page(width=390, height=800)
    page.wait("document.querySelector('table.jobs a')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("table.jobs a")
    page.wait(PLOTTED)
    page.press("j", 74)
    page.wait("!document.querySelector('#detail').hidden")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('#curves .main-svg').getBoundingClientRect().width") <= 390


def test_the_stages_of_a_job_show_what_each_has_reached_and_lead_to_its_trials(service, open_page):
    fill_job(service, "demo-1", trials=3, steps=40)
    first, second = make_stages()
    service.change("demo-1", stage="effect", stages=[replace(first, best_trial=0), second])
    present = service.trials_of["demo-1"]
    service.stages_of = {"fast": present[:1], "effect": present}
    page = open_page(job_address("demo-1"))
    page.wait(f"{ROWS} === 3 && document.querySelectorAll('.stages li').length === 2")
    shown = page.text(".stages")
    assert "1. fast" in shown
    assert "perf/tokens_per_s >= 1.3 * default holds (default = 10" in shown
    assert "must reach eval/reward > 0" in shown
    page.click(".stages li:first-child button")
    page.wait(f"{ROWS} === 1")
    assert page.evaluate("document.querySelector('.stages [aria-pressed=true]').innerText") == "1. fast"


def test_a_page_that_follows_a_job_moves_on_with_it_to_the_next_stage(service, open_page):
    fill_job(service, "demo-1", trials=4, steps=40, state="running")
    first, second = make_stages()
    first = replace(first, best_trial=0)
    service.change("demo-1", stage="fast", stages=[replace(first, state="running"), replace(second, state="queued")])
    trials = service.trials_of["demo-1"]
    service.stages_of = {"fast": trials, "effect": trials[:2]}
    page = open_page(job_address("demo-1"))
    page.wait(f"{ROWS} === 4")
    service.change("demo-1", stage="effect", stages=[first, second])
    service.record("demo-1", "stage.begin", "stage effect begins", stage="effect")
    page.wait(f"{ROWS} === 2")


def test_a_job_without_stages_shows_none(service, open_page):
    fill_job(service, "demo-1", trials=3, steps=40)
    page = open_page(job_address("demo-1"))
    page.wait(f"{ROWS} === 3")
    assert page.evaluate("document.querySelector('.stages').hidden")
