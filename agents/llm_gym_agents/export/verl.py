"""verl (0.9.1): data set rows, and an agent loop that plays their episodes."""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from llm_gym_agents.export.episodes import EpisodeChat, Row, TokenEpisode, need, prompt_rows
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

    Like verl's own loops it needs ``calculate_log_probs`` from the server. It masks observations
    and gives the return of the episode as ``reward_score``.
    """
    verl: Any = need("verl.experimental.agent_loop.agent_loop", "verl==0.9.1")

    class GameLoop(verl.AgentLoopBase):
        """Plays a text environment of llm-gym."""

        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            chat_format = ChatFormat.from_tokenizer(self.tokenizer)
            most, request = self.rollout_config.response_length, uuid4().hex
            with EpisodeChat(env_id, **kwargs) as chat:
                played = TokenEpisode(chat, chat_format, int(row["extra_info"]["seed"]))
                while chat.turns < max_turns and not played.is_over(most):
                    output = await self.server_manager.generate(
                        request_id=request, prompt_ids=played.ids, sampling_params=sampling_params
                    )
                    played.take(list(output.token_ids), output.log_probs or None)
            return verl.AgentLoopOutput(
                prompt_ids=played.prompt,
                response_ids=played.completion[:most],
                response_mask=played.mask[:most],
                response_logprobs=played.logprobs and played.logprobs[:most],
                reward_score=chat.reward,
                num_turns=2 * chat.turns,
                metrics=verl.AgentLoopMetrics(),
                extra_fields={"success": chat.success, "stop_reason": str(chat.stop)},
            )

    registered: type = verl.register(AGENT)(GameLoop)
    return registered
