export CUDA_DEVICE_MAX_CONNECTIONS=1
python3 -m verl.trainer.main_ppo model_engine=megatron \
    data.train_files=/d/a.parquet data.val_files=/d/b.parquet data.train_batch_size=1024 \
    actor_rollout_ref.model.path=deepseek-ai/deepseek-llm-7b-chat \
    actor_rollout_ref.actor.optim.lr=2e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
    critic.ppo_micro_batch_size_per_gpu=4 critic.optim.lr=2e-5 \
    algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.01 \
    trainer.n_gpus_per_node=8 trainer.total_training_steps=100
