"""Build the SGLang engine: launch a server, or find the one that is named."""

from __future__ import annotations

import atexit
import copy
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.config import Config
from trainer.data import Tokenizer
from trainer.distributed import World
from trainer.failures import EngineError
from trainer.rollout import sglang_server
from trainer.rollout.engine import RolloutEngine
from trainer.rollout.fits import check_parallel_size, parity_check, refused
from trainer.rollout.team import team_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from trainer.models import Networks
    from trainer.rollout.sglang_client import SglangClient


def build_sglang(config: Config, networks: Networks, tokenizer: Tokenizer, world: World) -> RolloutEngine:
    """An engine on a server that all ranks share; rank 0 talks to it.

    Raises:
        ConfigError: SGLang is not installed and no server is named, or it cannot run this model.
        EngineError: The server does not come up.
    """
    from trainer.rollout.sglang import SglangEngine

    rollout, team = config.rollout, team_of(world, world.size)
    shape = copy.deepcopy(networks.actor.config)
    shape.eos_token_id = shape.get_text_config().eos_token_id = tokenizer.end_id
    check_parallel_size(config, shape)
    if rollout.server_url is None and not sglang_server.is_installed():
        message = "got 'sglang', but SGLang is not installed and no server is named"
        raise refused("rollout.name", message, "pip install sglang, or set rollout.server_url")
    directory = Path(rollout.sync_dir or tempfile.mkdtemp(prefix="sglang-weights-"))
    if rollout.sync_dir is None:
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    client, failure = None, None
    try:
        client = _client(config, shape, directory, world, is_leader=team.is_leader)
    except EngineError as error:
        failure = error
    for found in team.all(failure):  # the server is the leader's; without it nobody can go on
        if found is not None:
            raise found
    assert client is not None
    return SglangEngine(
        client,
        team=team,
        directory=directory,
        shape=shape,
        dtype=getattr(torch, rollout.dtype or config.model.dtype),
        pad_id=tokenizer.pad_id,
        end_id=tokenizer.end_id,
        device=world.device,
        parity=parity_check(config, networks),
    )


def _client(config: Config, shape: PretrainedConfig, directory: Path, world: World, *, is_leader: bool) -> SglangClient:
    from trainer.rollout.sglang_client import SglangClient

    url, timeout = config.rollout.server_url, config.rollout.server_timeout_s
    assert timeout is not None
    if url is not None or not is_leader:
        client = SglangClient(url or "http://127.0.0.1", timeout_s=timeout)
        if is_leader:
            client.wait_until_up()
        return client
    model = directory / "model"
    model.mkdir(parents=True, exist_ok=True)
    shape.save_pretrained(model)
    port = sglang_server.free_port()
    arguments = sglang_server.server_arguments(config, model, port, world.device)
    server = sglang_server.OwnServer(arguments, directory / "server.log")
    client = SglangClient(sglang_server.url_of(port), timeout_s=timeout, is_alive=server.is_alive)
    server.wait_until_up(client)
    return client
