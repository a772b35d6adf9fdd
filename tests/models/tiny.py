"""Language model of half a megabyte with random weights, and a tokenizer trained on a few prompts.

Its answers have no meaning, but it gives engines real tokens and probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from judges.prompts import find, names


def build(folder: Path, seed: int, *, chat: bool = False) -> Path:
    """Write a Llama model of two layers with a byte-level BPE tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    texts = [find(name).instructions + find(name).prefill for name in names()]
    texts += [f"Total rating: {k}" for k in range(101)] * 5 + ["Verdict: yes", "Verdict: no", "Verdict:yes"] * 20
    written = tokenizer(texts)
    if chat:
        written.chat_template = (
            "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}"
        )
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(written),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # untrained logits are all alike; spread them, and favour digits a little
        model.lm_head.weight.mul_(20.0)
    model.save_pretrained(folder, safe_serialization=True)
    written.save_pretrained(folder)
    return folder


def tokenizer(texts: Iterable[str]) -> Any:
    """Train a byte-level BPE tokenizer on these texts, with <s> and </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    # Digits stay apart, so that 10 and 100 are several tokens, as in many models.
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", bpe.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>")
