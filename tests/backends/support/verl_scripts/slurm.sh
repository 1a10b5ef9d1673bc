#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
source /opt/venv/bin/activate
if [ -z "$DATA" ]; then
  DATA=/scratch/data
fi
per_gpu=8
batch=$(( per_gpu * 8 * 4 ))
srun --ntasks=1 python -u /opt/verl/verl/trainer/main_ppo.py \
  data.train_files=$DATA/train.parquet data.val_files=$DATA/val.parquet \
  data.train_batch_size=$batch actor_rollout_ref.actor.ppo_mini_batch_size=$(( batch / 4 )) \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$per_gpu critic.ppo_micro_batch_size_per_gpu=$per_gpu \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=$per_gpu \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.strategy=fsdp2 critic.strategy=fsdp2 \
  trainer.n_gpus_per_node=8 trainer.total_training_steps=500 trainer.save_freq=50
