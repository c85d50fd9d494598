"""Forty rows with a number each, and the Dataset environment on them."""

import json

from llm_gym.envs.questions.dataset import DatasetEnv

ROWS = [{"prompt": f"Say the number {n}.", "answer": str(n)} for n in range(40)]


def make(rows=ROWS, seed=0, **kwargs):
    env = DatasetEnv(dataset=rows, **kwargs)
    env.reset(seed=seed)
    return env


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def numbers(env, seeds, options=None):
    return [env.reset(seed=seed, options=options)[1]["row"] for seed in seeds]
