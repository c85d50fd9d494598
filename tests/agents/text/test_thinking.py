"""Templates of models that think: what is read in every turn is what the template writes."""

import importlib.util
import pickle
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.text.chat import ChatFormat, TokenConversation
from tests.agents.text.chat_templates import FAMILIES, Family, build_tokenizer

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>?", "</think>?")
THOUGHT = "<think>\nIs it north? Or east.\n</think>\n\n"


class Case(NamedTuple):
    """A template, how it thinks, and what a model samples in it."""

    family: Family
    rewrites: bool
    thinks: bool
    thought: str = ""
    """What is sampled before the answer."""
    lead: str = ""
    """What is sampled before an answer without a thought."""
    options: dict[str, Any] = {}
    hides: str = ""
    """What the prompt has opened, and the text of a reply shows."""


QWEN = Family("qwen-3", CHATML, "<|im_end|>", "<|im_end|>")
SMOL = Family("smollm-3", CHATML, "<|im_end|>", "<|im_end|>")
GEMMA = Family(
    "gemma-3", FAMILIES["gemma"].tokens, "<end_of_turn>", "<eos>", "<bos>", adds_bos=True
)
GLM = Family("glm-4.5", (*FAMILIES["glm"].tokens, *CHATML[3:]), "<|user|>", "<|endoftext|>")
MAGISTRAL = Family(
    "magistral", (*FAMILIES["mistral-3"].tokens, "[THINK]", "[/THINK]"), "</s>", "</s>", "<s>"
)
SEED = Family(
    "seed-oss", ("<seed:bos>", "<seed:eos>", "<seed:think>?", "</seed:think>?"), "<seed:eos>",
    "<seed:eos>", "<seed:bos>",
)  # fmt: skip
OFF = {"enable_thinking": False}
ANALYSIS = "<|channel|>analysis<|message|>Is it north?<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"
CASES = {
    "qwen-3": Case(QWEN, True, True, THOUGHT),
    "qwen-3 off": Case(QWEN, True, False, options=OFF),
    "smollm-3": Case(SMOL, False, True, THOUGHT),
    "smollm-3 off": Case(SMOL, False, False, options=OFF),
    "gemma-3": Case(GEMMA, False, False),
    "deepseek-r1": Case(
        FAMILIES["deepseek"], True, True, "Is it north?\n</think>\n\n", "\n</think>\n\n",
        hides="<think>",
    ),
    "gpt-oss": Case(FAMILIES["harmony"], True, True, ANALYSIS + FINAL, FINAL),
    "mistral-3": Case(FAMILIES["mistral-3"], True, False),
    "glm-4.5": Case(GLM, True, True, "\n<think>Is it north?</think>\n", "\n<think></think>\n"),
    "magistral": Case(MAGISTRAL, False, True, "[THINK]Is it north?[/THINK]"),
    "seed-oss": Case(SEED, True, True, "<seed:think>Is it north?</seed:think>"),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


@cache
def made(name):
    case = CASES[name]
    tokenizer = build_tokenizer(case.family)
    return tokenizer, ChatFormat.from_tokenizer(tokenizer, template_options=case.options)


def sampled(name, text):
    """Return the ids that a model samples for ``text``, with its end."""
    case = CASES[name]
    end = case.family.stops[0] if case.family.stops else case.family.end
    return made(name)[0].encode(f"{text}{end}", add_special_tokens=False)


@every_case
def test_rewriting_and_thinking_templates_are_detected(name):
    case, (_, chat) = CASES[name], made(name)
    assert (chat.rewrites, chat.thinks) == (case.rewrites, case.thinks)


@every_case
@pytest.mark.parametrize("system", ["", "Explore."])
def test_every_prompt_is_the_one_that_the_template_writes(name, system):
    """With thoughts in earlier replies, as the model wrote them, and without."""
    case, (tokenizer, chat) = CASES[name], made(name)
    for thought in {case.thought, case.lead}:
        talk = TokenConversation(chat)
        talk.read(system, "A hall <|im_end|> é.")
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": "A hall <|im_end|> é."})
        for answer, observation in (
            ("go north", "A den."),
            ("open chest", "Gold."),
            ("look", "You win"),
        ):
            talk.add_reply(sampled(name, thought + answer))
            talk.add_observation(observation)
            shown = answer if case.rewrites else thought + answer
            messages += [
                {"role": "assistant", "content": shown},
                {"role": "user", "content": observation},
            ]
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **case.options
            )
            ours = tokenizer.decode(talk.ids, skip_special_tokens=False)
            assert _undated(ours) == _undated(text)
            typed = "<|im_end|>" in case.family.words  # stays text, while the tokenizer takes it
            if name.startswith("smol") or typed:
                continue
            assert talk.ids == tokenizer.encode(text, add_special_tokens=False)


def _undated(text):
    """Without the microseconds of the date, which are those of when a format was made."""
    head, mark, rest = text.partition("Today: ")
    return head + rest.partition("\n")[2] if mark else text


def test_the_date_of_a_format_does_not_change():
    _, chat = made("smollm-3")
    prompts = [chat.prompt("", [("a", "b")] * turns, "c") for turns in (1, 2)]
    texts = [made("smollm-3")[0].decode(ids).partition("Reasoning")[0] for ids in prompts]
    assert texts[0] == texts[1]


@every_case
def test_the_answer_of_a_reply_leaves_out_its_thought(name):
    case, (_, chat) = CASES[name], made(name)
    reply = sampled(name, case.thought + "go north")
    text = chat.text_of(reply)
    assert text.startswith(case.hides)
    assert ("Is it north?" in text) == ("Is it" in case.thought)
    assert chat.answer_of(reply) == "go north"
    if case.thought:  # cut while it thinks: nothing was answered
        thought = case.thought.partition("</think>")[0].partition("<|end|>")[0]
        cut = made(name)[0].encode(thought, add_special_tokens=False)
        assert chat.answer_of(cut) == ""


@every_case
def test_a_demonstration_holds_its_move_and_no_thought(name):
    case, (_, chat) = CASES[name], made(name)
    assert chat.answer_of(chat.reply("go north")) == "go north"
    assert chat.reply("go north")[:-1] == sampled(name, case.lead + "go north")[:-1]


def test_verbatim_replies_grow_by_appending_whatever_the_template_does():
    _, chat = made("qwen-3")
    talk = TokenConversation(chat, "verbatim")
    first, reply = talk.read("", "A hall."), sampled("qwen-3", THOUGHT + "go north")
    talk.add_reply(reply)
    added = talk.add_observation("A den.")
    assert talk.ids == first + reply + added == first + reply + chat.following(reply, "A den.")


def test_a_rewritten_history_keeps_typed_tokens_as_text_and_can_be_pickled():
    tokenizer, chat = made("qwen-3")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain = chat.prompt("rules", [("a hall", "go north")], "a den")
    typed = chat.prompt("rules", [("a <|im_end|> hall", "go <|im_end|> north")], "a den")
    assert typed.count(end) == plain.count(end)
    _, chat = made("qwen-3")
    other = pickle.loads(pickle.dumps(chat))
    assert other.prompt("", [("a", "b")], "c") == chat.prompt("", [("a", "b")], "c")


def test_a_template_that_drops_earlier_replies_is_refused_with_a_remedy():
    tokenizer = build_tokenizer(QWEN)
    shown = "{%- if loop.index0 + 3 > messages | length or message.role != 'assistant' -%}"
    tokenizer.chat_template = QWEN.template.replace(
        "{%- set content = message.content -%}", "{%- set content = message.content -%}" + shown
    ).replace("{%- endfor -%}\n{%- if add_gen", "{%- endif -%}{%- endfor -%}\n{%- if add_gen")
    chat = ChatFormat.from_tokenizer(tokenizer)
    assert chat.rewrites
    with pytest.raises(ConfigError, match=r"inference\.context"):
        chat.prompt("", [("a", "b"), ("c", "d")], "e")


def _installed():
    """Yield the chat templates that packages on this machine bring along."""
    for package in ("vllm", "trl", "sglang", "transformers", "llama_cpp"):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            yield from (each for each in Path(folder).rglob("*.jinja") if "chat" in str(each))


@pytest.mark.parametrize("file", list(_installed()), ids=lambda file: file.name)
def test_templates_of_installed_packages_are_split_or_refused(file):
    tokenizer = build_tokenizer(QWEN)
    tokenizer.chat_template = file.read_text("utf-8")
    try:
        chat = ChatFormat.from_tokenizer(tokenizer)
    except ConfigError:
        return
    talk = TokenConversation(chat)
    talk.read("Explore.", "A hall.")
    talk.add_reply(chat.reply("go north"))
    talk.add_observation("A den.")
    text = tokenizer.decode(talk.ids)
    assert text.index("A hall.") < text.index("go north") < text.index("A den.")
