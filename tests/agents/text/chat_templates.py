"""Chat templates in the formats of well-known model families, on a tokenizer trained here."""

import json
from dataclasses import dataclass
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

_CHATML = """
{%- if messages[0]['role'] == 'system' -%}
{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{%- set content = message['content'] -%}
{%- if '</think>' in content -%}
{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' -}}
{%- elif message['role'] == 'user' -%}
{{- '<|im_start|>user\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}
{{- '<think>\\n\\n</think>\\n\\n' -}}
{%- endif -%}
{%- endif -%}
"""

_LLAMA_3 = """
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] | trim -%}
{%- set messages = messages[1:] -%}
{%- else -%}
{%- set system = '' -%}
{%- endif -%}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' -}}
{{- 'Cutting Knowledge Date: December 2023\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n\\n' -}}
{{- system + '<|eot_id|>' -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' -}}
{{- message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}
"""

_GEMMA = """
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}
{{- raise_exception('System role not supported') -}}
{%- endif -%}
{%- for message in messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
{%- endif -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}
"""

_MISTRAL = """
{{- bos_token -}}
{%- for message in messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
{%- endif -%}
{%- if message['role'] == 'user' -%}
{{- '[INST] ' + message['content'] + ' [/INST]' -}}
{%- else -%}
{{- ' ' + message['content'] + eos_token -}}
{%- endif -%}
{%- endfor -%}
"""

_LLAMA_2 = """
{%- if messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] -%}
{%- set messages = messages[1:] -%}
{%- else -%}
{%- set system = false -%}
{%- endif -%}
{%- for message in messages -%}
{%- if loop.index0 == 0 and system is not false -%}
{%- set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] -%}
{%- else -%}
{%- set content = message['content'] -%}
{%- endif -%}
{%- if message['role'] == 'user' -%}
{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' -}}
{%- elif message['role'] == 'assistant' -%}
{{- ' ' + content.strip() + ' ' + eos_token -}}
{%- endif -%}
{%- endfor -%}
"""

# Writes the system prompt into the last user turn, wherever that is by now.
_MISTRAL_3 = """
{%- if messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] -%}
{%- set messages = messages[1:] -%}
{%- endif -%}
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}
{%- if loop.last and system is defined -%}
{{- '[INST] ' + system + '\\n\\n' + message['content'] + '[/INST]' -}}
{%- else -%}
{{- '[INST] ' + message['content'] + '[/INST]' -}}
{%- endif -%}
{%- else -%}
{{- ' ' + message['content'] | trim + eos_token -}}
{%- endif -%}
{%- endfor -%}
"""

_PHI_3 = """
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- else -%}{{- eos_token -}}{%- endif -%}
"""

# The turn marks are added tokens that are not special, and the reply begins in its reasoning.
_DEEPSEEK = """
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{- message['content'] -}}
{%- elif message['role'] == 'user' -%}{{- '<｜User｜>' + message['content'] -}}
{%- else -%}
{%- set content = message['content'].split('</think>')[-1] -%}
{{- '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜><think>\\n' -}}{%- endif -%}
"""

# Has no end of turn: the model stops by opening the next one.
_GLM = """
{{- '[gMASK]<sop>' -}}
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\\n' + message['content'] -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}
"""

# The last reply of a conversation ends in another token than those before.
_HARMONY = """
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|start|>assistant<|channel|>final<|message|>' + message['content'] -}}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' -}}
{%- else -%}
{{- '<|start|>' + message['role'] + '<|message|>' + message['content'] + '<|end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%}
"""

# No control tokens at all, and a system message that vanishes without a word.
_ALPACA = """
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}{{- '### Instruction:\\n' + message['content'] + '\\n\\n' -}}
{%- elif message['role'] == 'assistant' -%}
{{- '### Response:\\n' + message['content'] + '\\n\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '### Response:\\n' -}}{%- endif -%}
"""


@dataclass(frozen=True)
class Family:
    """A template, its tokens, and how a whole reply looks in it."""

    name: str
    template: str
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
    """What the prompt says for the reply, and the history forgets."""
    stops: tuple[str, ...] = ()
    """What the engine must stop at; ``end`` and ``eos`` where empty."""
    system_role: bool = True
    """Whether the system prompt has a place of its own, at the head of the conversation."""
    greedy: bool = False
    """Its tokens swallow the white space behind them."""
    adds_bos: bool = False

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
        "chatml", _CHATML, ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>?", "</think>?"),
        "<|im_end|>", "<|im_end|>",
    ),
    Family(
        "llama-3", _LLAMA_3, _LLAMA_3_TOKENS, "<|eot_id|>", "<|eot_id|>", "<|begin_of_text|>",
        adds_bos=True,
    ),
    Family(
        "gemma", _GEMMA, ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), "<end_of_turn>",
        "<eos>", "<bos>", system_role=False, adds_bos=True,
    ),
    Family(
        "mistral", _MISTRAL, ("<s>", "</s>"), "</s>", "</s>", "<s>", " ", system_role=False,
        adds_bos=True,
    ),
    Family("llama-2", _LLAMA_2, ("<s>", "</s>"), "</s>", "</s>", "<s>", " ", " ", adds_bos=True),
    Family(
        "mistral-3", _MISTRAL_3, ("<s>", "</s>", "[INST]", "[/INST]"), "</s>", "</s>", "<s>", " ",
        system_role=False,
    ),
    Family(
        "phi-3", _PHI_3, ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        "<|end|>", "<|endoftext|>", greedy=True,
    ),
    Family(
        "deepseek", _DEEPSEEK, _DEEPSEEK_TOKENS, "<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>", prefill="<think>\n",
    ),
    Family(
        "glm", _GLM,
        ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
        "<|user|>", "<|endoftext|>",
    ),
    Family(
        "harmony", _HARMONY, ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"),
        "<|end|>", "<|return|>", lead="<|channel|>final<|message|>", stops=("<|return|>",),
    ),
    Family("alpaca", _ALPACA, ("</s>",), "", "</s>", system_role=False),
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

    It is byte-level BPE, or one of pieces where ``prepend`` says which get a space in front.
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
