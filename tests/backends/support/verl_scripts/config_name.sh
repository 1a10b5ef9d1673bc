python -m verl.trainer.main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml' \
    data.train_batch_size=256 actor_rollout_ref.actor.use_dynamic_bsz=true \
    actor_rollout_ref.model.path=Qwen/Qwen2-7B actor_rollout_ref.rollout.name=vllm \
    trainer.n_gpus_per_node=8 trainer.total_training_steps=50
