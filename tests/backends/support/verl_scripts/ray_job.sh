WORKING_DIR=${WORKING_DIR:-"${PWD}"}
ray job submit --no-wait --runtime-env="${WORKING_DIR}/env.yaml" -- python3 -m verl.trainer.main_ppo \
    data.train_files="${HOME}/train.parquet" data.val_files="${HOME}/val.parquet" \
    data.train_batch_size=512 \
    actor_rollout_ref.model.path="${HOME}/models/7b" \
    +actor_rollout_ref.model.override_config.attention_dropout=0. \
    actor_rollout_ref.actor.clip_ratio_low=0.2 actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.actor.clip_ratio_c=10.0 \
    actor_rollout_ref.actor.optim.lr=1e-6 actor_rollout_ref.actor.optim.lr_warmup_steps=10 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=16 \
    algorithm.adv_estimator=grpo \
    trainer.n_gpus_per_node=8 trainer.nnodes=2 trainer.total_training_steps=300
