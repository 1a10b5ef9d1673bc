python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8
