#!/usr/bin/env bash
set -xeuo pipefail

export VLLM_USE_V1=1
MODEL_PATH=${MODEL_PATH:-"Qwen/Qwen3-8B"}
NGPUS=${NGPUS:-8}
rollout_n=5

DATA=(
    data.train_files=/data/train.parquet
    data.val_files=/data/val.parquet
    data.train_batch_size=$((128 * NGPUS))   # prompts
    data.max_prompt_length=512
    data.max_response_length=1024
)
ACTOR=(
    actor_rollout_ref.model.path=$MODEL_PATH
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.ppo_mini_batch_size=256
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.use_kl_loss=True
    actor_rollout_ref.actor.kl_loss_coef=0.001
    actor_rollout_ref.actor.kl_loss_type=low_var_kl
)
ROLLOUT=(
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=${rollout_n}
    actor_rollout_ref.rollout.tensor_model_parallel_size=2
)
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    "${DATA[@]}" "${ACTOR[@]}" "${ROLLOUT[@]}" \
    trainer.n_gpus_per_node=$NGPUS \
    trainer.experiment_name="grpo-$(date +%m%d-%H%M)" \
    trainer.total_training_steps=200 \
    "$@"
