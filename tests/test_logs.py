"""Log records for people and for machines: whose they are, on one line, and without secrets."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

from autotune import logs

TOKEN = "at_abcdef012345_" + "S" * 43


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(logs, "_PROCESS", {})
    logger = logging.getLogger("autotune.test_logs")
    logger.propagate, logger.level = False, logging.INFO
    yield logger
    logger.handlers.clear()
    logger.propagate = True


def written(logger, formatter):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.handlers = [handler]
    return stream


def test_a_record_is_one_json_object_on_one_line(log):
    out = written(log, logs.JsonLines())
    log.warning("first\nsecond %s", "third")
    (line,) = out.getvalue().splitlines()
    record = json.loads(line)
    assert (record["level"], record["logger"]) == ("warning", "autotune.test_logs")
    assert record["message"] == "first\nsecond third"
    assert record["time"].endswith("Z")


def test_it_says_which_request_job_and_trial_it_is_about(log):
    out = written(log, logs.JsonLines())
    logs.of_process(job="demo-1")
    with logs.about(request_id="r-1"):
        log.info("inside", extra={"trial": 3})
    thread = threading.Thread(target=lambda: log.info("in a thread"))
    thread.start()
    thread.join()
    inside, thread = map(json.loads, out.getvalue().splitlines())
    assert (inside["request_id"], inside["job"], inside["trial"]) == ("r-1", "demo-1", 3)
    assert thread["job"] == "demo-1"
    assert "request_id" not in thread


SECRETS = [
    (f"token {TOKEN} came", "S" * 43),
    (f"Authorization: Bearer {TOKEN}", "S" * 43),
    ("Authorization: Basic Z29vZDpwYXNzd29yZA==", "Z29vZDpwYXNzd29yZA"),
    ("postgresql+psycopg://tune:hunter22@db/autotune is away", "hunter22"),
    ("password=hunter22 host=db", "hunter22"),
    ("api_key: hunter22hunter22", "hunter22"),
    ("HF hf_AbCdEfGhIjKlMnOpQrSt", "AbCdEfGhIjKlMnOpQrSt"),
]


@pytest.mark.parametrize("formatter", [logs.JsonLines, logs.Lines])
@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_not_written_whether_in_the_message_or_in_the_exception(log, formatter, text, secret):
    out = written(log, formatter())
    log.warning("%s", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("failed")
    assert secret not in out.getvalue()
    assert "***" in out.getvalue()


def test_what_is_no_secret_stays_readable():
    text = "GET /v1/jobs/at-work-1/trials at http://localhost:8765 answered 200; the token at_abcdef012345 of 'ada'"
    assert logs.redacted(text) == text


def test_a_message_cannot_pretend_to_be_another_line(log):
    out = written(log, logs.Lines())
    log.warning("GET /x\n2026-01-01 ERROR root: all is lost\x1b[31m")
    (line,) = out.getvalue().splitlines()
    assert "\\n2026-01-01" in line
    assert "\x1b" not in line


@pytest.mark.timeout(120)
def test_the_service_writes_json_lines_for_every_request_and_for_its_server(tmp_path):
    environment = {**os.environ, "AUTOTUNE_HOME": str(tmp_path), "AUTOTUNE_LOG_FORMAT": "json"}
    environment.pop("AUTOTUNE_URL", None)
    command = [sys.executable, "-m", "autotune.cli.main", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serve:
        text = ""
        while not text.rstrip().endswith("}"):
            text += serve.stdout.readline()
        request = urllib.request.Request(
            f"{json.loads(text)['url']}/v1/jobs?limit=1&note={TOKEN}", headers={"X-Request-ID": "mine-1"}
        )
        assert urllib.request.urlopen(request, timeout=60).status == 200
        serve.send_signal(signal.SIGINT)
        _, errors = serve.communicate(timeout=60)
    records = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    (asked,) = [record for record in records if record["logger"] == "autotune.access"]
    assert asked["message"] == "GET /v1/jobs 200"
    assert (asked["request_id"], asked["route"], asked["status"]) == ("mine-1", "/v1/jobs", 200)
    assert asked["ms"] >= 0
    assert any(record["logger"].startswith("uvicorn") for record in records)
    assert "S" * 43 not in errors
