"""Chat templates in the formats of well-known model families, on a tokenizer trained here."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Family:
    """A template of ``templates/``, its tokens, and how a whole reply looks in it."""

    name: str
    tokens: tuple[str, ...]
    """Special tokens. A ``!`` behind one: it is added but not special, and the template writes it
    as control. A ``?``: it is added, and a word like others."""
    end: str
    """What ends a reply, empty where nothing does."""
    eos: str
    bos: str | None = None
    lead: str = ""
    """What a reply begins with, before its content."""
    trail: str = ""
    """What a reply has between its content and its end."""
    prefill: str = ""
    """What the prompt begins a reply with, and the history leaves out."""
    stops: tuple[str, ...] = ()
    """What the engine must stop at; ``end`` and ``eos`` where empty."""
    system_role: bool = True
    """Whether the system prompt has a place of its own, at the head of the conversation."""
    greedy: bool = False
    """Its tokens swallow the white space behind them."""
    adds_bos: bool = False

    @property
    def template(self) -> str:
        return (Path(__file__).parent / f"templates/{self.name}.jinja").read_text("utf-8")

    @property
    def words(self) -> list[str]:
        """Its control tokens, as somebody would type them."""
        return [token.removesuffix("!") for token in self.tokens if not token.endswith("?")]


_LLAMA_3_TOKENS = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>",
)  # fmt: skip
_DEEPSEEK_TOKENS = (
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>!", "<｜Assistant｜>!",
    "<think>!", "</think>?",
)  # fmt: skip
_FAMILIES = (
    Family(
        "chatml", ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>?", "</think>?"),
        "<|im_end|>", "<|im_end|>",
    ),
    Family(
        "llama-3", _LLAMA_3_TOKENS, "<|eot_id|>", "<|eot_id|>", "<|begin_of_text|>",
        adds_bos=True,
    ),
    Family(
        "gemma", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), "<end_of_turn>",
        "<eos>", "<bos>", system_role=False, adds_bos=True,
    ),
    Family(
        "mistral", ("<s>", "</s>"), "</s>", "</s>", "<s>", " ", system_role=False,
        adds_bos=True,
    ),
    Family("llama-2", ("<s>", "</s>"), "</s>", "</s>", "<s>", " ", " ", adds_bos=True),
    Family(
        "mistral-3", ("<s>", "</s>", "[INST]", "[/INST]"), "</s>", "</s>", "<s>", " ",
        system_role=False,
    ),
    Family(
        "phi-3", ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        "<|end|>", "<|endoftext|>", greedy=True,
    ),
    Family(
        "deepseek", _DEEPSEEK_TOKENS, "<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>", prefill="<think>\n",
    ),
    Family(
        "glm",
        ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
        "<|user|>", "<|endoftext|>",
    ),
    Family(
        "harmony", ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"),
        "<|end|>", "<|return|>", lead="<|channel|>final<|message|>", stops=("<|return|>",),
    ),
    Family("alpaca", ("</s>",), "", "</s>", system_role=False),
)  # fmt: skip
FAMILIES = {family.name: family for family in _FAMILIES}

_CORPUS = [
    "You are in the kitchen. Exits: north, east.\n\nA rope lies here. What do you do?",
    "system user assistant model Instruction Response INST SYS You are a helpful assistant.",
    "go north\ntake rope\nopen chest\n\nThe door is locked. I should look for the key.",
] * 20


@cache
def _bytes() -> str:
    """Return byte-level BPE, as Qwen, Llama 3 and SmolLM have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer.to_str()


@cache
def _pieces(prepend: str) -> str:
    """Return BPE over pieces with byte fallback, as Gemma, Llama 2 and Mistral have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    tokenizer.train_from_iterator(_CORPUS, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    parts = json.loads(tokenizer.to_str())
    vocabulary = parts["model"]["vocab"]
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    parts["model"]["byte_fallback"] = True
    return json.dumps(parts)


def build_tokenizer(family: Family, prepend: str | None = None) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the family's tokens and template.

    It is byte-level BPE, or one of pieces if ``prepend`` names those that get a space in front.
    """
    tokenizer = Tokenizer.from_str(_bytes() if prepend is None else _pieces(prepend))
    for name in family.tokens:
        word = name.rstrip("!?")
        rstrip = family.greedy and word != family.eos
        token = AddedToken(word, special=word == name, normalized=False, rstrip=rstrip)
        (tokenizer.add_special_tokens if word == name else tokenizer.add_tokens)([token])
    if family.adds_bos:
        bos = (family.bos, tokenizer.token_to_id(family.bos))
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{family.bos} $A", special_tokens=[bos]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=family.bos,
        eos_token=family.eos,
        chat_template=family.template,
    )


def base_tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer as a base model has it: no template, one end of text."""
    tokenizer = Tokenizer.from_str(_bytes())
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
