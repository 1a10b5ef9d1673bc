/opt/envs/verl/bin/python -m verl.trainer.main_ppo data.train_batch_size=64 \
    actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct actor_rollout_ref.model.lora_rank=64 \
    actor_rollout_ref.model.lora_alpha=32 actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.actor.optim.lr=3e-5 actor_rollout_ref.actor.ppo_mini_batch_size=16 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 critic.ppo_micro_batch_size_per_gpu=2 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 \
    actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    trainer.n_gpus_per_node=2 trainer.total_training_steps=40 > run.log
