"""verl (0.9.1): rows of its data sets, and an agent loop that plays the episodes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from llm_gym_agents.export.episode import Conversation, need
from llm_gym_agents.export.rows import Row, prompt_rows
from llm_gym_agents.text.chat import ChatFormat

AGENT = "llm_gym"


def verl_rows(env_id: str, seeds: Iterable[int], **kwargs: Any) -> list[Row]:
    """Return rows of ``data.train_files``; write them with ``as_dataset(rows).to_parquet(path)``.

    >>> row, = verl_rows("llm_gym/GuessTheNumber-v0", [3])
    >>> row["agent_name"], row["extra_info"]["seed"], row["reward_model"]["style"]
    ('llm_gym', 3, 'rule')
    """
    return [
        {
            "prompt": [{"role": one["role"], "content": one["content"]} for one in row["prompt"]],
            "data_source": env_id,
            "agent_name": AGENT,
            "ability": "game",
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"seed": row["seed"], "index": at, "env_id": env_id},
        }
        for at, row in enumerate(prompt_rows(env_id, seeds, **kwargs))
    ]


def agent_loop(env_id: str, *, max_turns: int = 16, **kwargs: Any) -> type:
    """Return an agent loop, registered as ``llm_gym``, that plays ``env_id``.

    It wants ``calculate_log_probs`` from the server as verl's own loops do, masks what the
    environment says, and hands over the return of the episode as ``reward_score``.
    """
    verl: Any = need("verl.experimental.agent_loop.agent_loop", "verl==0.9.1")

    class GameLoop(verl.AgentLoopBase):
        """Plays a text environment of llm-gym."""

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            talk, written = (
                Conversation(env_id, **kwargs),
                ChatFormat.from_tokenizer(self.tokenizer),
            )
            told = talk.begin(int(row["extra_info"]["seed"]))
            prompt = written.opening(
                told[0]["content"] if len(told) > 1 else "", told[-1]["content"]
            )
            ids: list[int] = []
            mask: list[int] = []
            logprobs: list[float] = []
            most, request = self.rollout_config.response_length, uuid4().hex
            while not talk.done and talk.turns < max_turns and len(ids) < most:
                output = await self.server_manager.generate(
                    request_id=request, prompt_ids=[*prompt, *ids], sampling_params=sampling_params
                )
                reply = list(output.token_ids)
                ids, mask = [*ids, *reply], [*mask, *[1] * len(reply)]
                logprobs += list(output.log_probs or [])
                observation = talk.answer(written.text_of(reply))
                if not talk.done:
                    more = written.following(reply, observation)
                    ids, mask = [*ids, *more], [*mask, *[0] * len(more)]
                    logprobs += [0.0] * len(more) if output.log_probs else []
            return verl.AgentLoopOutput(
                prompt_ids=prompt,
                response_ids=ids[:most],
                response_mask=mask[:most],
                response_logprobs=logprobs[:most] if len(logprobs) == len(ids) else None,
                reward_score=talk.reward,
                num_turns=2 * talk.turns,
                metrics=verl.AgentLoopMetrics(),
                extra_fields={"success": talk.success, "stop_reason": str(talk.stop)},
            )

    registered: type = verl.register(AGENT)(GameLoop)
    return registered
