ENGINE=${1:-vllm}
python3 -m verl.trainer.main_ppo data.train_batch_size=128 \
    actor_rollout_ref.model.path=$1 custom_reward_function.path=/code/reward.py \
    custom_reward_function.name=my_score reward_model.reward_manager=dapo \
    actor_rollout_ref.actor.grad_clip=0.5 actor_rollout_ref.actor.clip_ratio=0.1 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_epochs=2 \
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.name=$ENGINE \
    trainer.default_local_dir=/ckpt/x trainer.resume_mode=disable \
    trainer.n_gpus_per_node=4 trainer.total_training_steps=64
