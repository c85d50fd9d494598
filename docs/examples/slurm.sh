#!/usr/bin/env bash
# A run on Slurm: the learner uses the four GPUs of the first node. Each GPU of the other nodes, which
# belong to Ray, has an actor.
#   sbatch docs/examples/slurm.sh
#SBATCH --job-name=llm-gym
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
set -euo pipefail
export RAY_AUTH_MODE=disabled # the allocation's network is private; otherwise use a token

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
port=6379

# The learner uses the first node's GPUs, so Ray must not.
srun --overlap --nodes=1 --ntasks=1 -w "$head" \
    ray start --head --node-ip-address="$head" --port=$port --num-gpus=0 --disable-usage-stats --block &
sleep 20
srun --overlap --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) \
    --exclude="$head" ray start --address="$head:$port" --block &
sleep 20

# After `scontrol requeue` it continues from its newest checkpoint.
srun --overlap --nodes=1 --ntasks=1 -w "$head" \
    torchrun --nproc-per-node 4 -m llm_gym train llm_gym/GuessTheNumber-v0 \
    --model HuggingFaceTB/SmolLM2-135M-Instruct --inference.backend vllm \
    --parallel.mode fsdp --ray.use-ray --ray.address "$head:$port" \
    --ray.num-actors $((4 * (SLURM_JOB_NUM_NODES - 1))) --ray.staleness 1 \
    --checkpoint.output-dir "$HOME/runs/guess" --checkpoint.resume
