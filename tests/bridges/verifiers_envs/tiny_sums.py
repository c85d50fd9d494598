"""A verifiers environment of one turn: sums, scored by a rubric."""

import verifiers as vf
from datasets import Dataset


def rows(first, last):
    return Dataset.from_list(
        [{"question": f"{n} + {n + 1} = ?", "answer": str(2 * n + 1)} for n in range(first, last)]
    )


def right(completion, answer, **_):
    return float(completion[-1]["content"].strip() == answer)


def load_environment(size=200, system_prompt="Answer with a number."):
    return vf.SingleTurnEnv(
        dataset=rows(0, size),
        eval_dataset=rows(1000, 1010),
        system_prompt=system_prompt,
        rubric=vf.Rubric(funcs=[right]),
    )
