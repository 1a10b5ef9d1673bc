import json
from pathlib import Path

import yaml

SCRIPT = Path(__file__).resolve().parents[1] / "backends" / "support" / "verl_scripts" / "grpo_arrays.sh"


def test_a_space_file_goes_to_stdout_and_what_was_left_out_to_stderr(cli):
    answer = cli("import-verl", str(SCRIPT), "--python", "/opt/verl/bin/python")
    assert answer.exit_code == 0
    document = yaml.safe_load(answer.stdout)
    assert document["name"] == "grpo_arrays"
    assert document["trainer"]["python"] == "/opt/verl/bin/python"
    assert "trainer.experiment_name" in answer.stderr


def test_the_script_may_come_from_stdin_and_the_answer_as_json(cli):
    text = "python3 -m verl.trainer.main_ppo trainer.total_training_steps=5 trainer.n_gpus_per_node=2"
    answer = cli("import-verl", "-", "--name", "My Run", "--json", text=text)
    assert answer.exit_code == 0
    document = json.loads(answer.stdout)
    assert document["notes"] == []
    assert yaml.safe_load(document["space"])["name"] == "my-run"


def test_a_file_that_is_not_there_and_a_script_without_verl_each_have_their_exit_code(cli, tmp_path):
    missing = cli("import-verl", "nowhere.sh")
    assert missing.exit_code == 4
    assert "nowhere.sh" in missing.stderr
    (tmp_path / "other.sh").write_text("python train.py\n")
    other = cli("import-verl", "other.sh")
    assert other.exit_code == 3
    assert "verl.trainer.main_ppo" in other.stderr
    assert "Traceback" not in missing.stderr + other.stderr
