"""Language models of half a megabyte that count words of ``paper_sets`` and answer with a grade on any scale.

One layer attends equally to all tokens, so the last position has their mean. The rows of the output layer are
least-squares readers of that mean. All judges share the layer; their readers see quality with different noise, and with
the length of the text, which some judges reward.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.models import paper_sets
from tests.models.tiny import tokenizer
from warehouse.versions import TRIGGERS

HIDDEN, ATTENTION = 128, 12.0
GRADES = {"1": -1.2, "2": -0.4, "4": 0.4, "5": 1.2}
"""Grades that are valid on all numeric scales of the paper's prompts, with their standardised quality."""

SCALES = ((0, 9), (0, 10), (1, 5), (0, 100), (1, 10))

VERDICTS = {" no": -0.8, " yes": 0.8}


def prompts(rng: np.random.Generator, each: int) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return prompts of the profile paper (n,), with their quality, words, and whether each asks for a verdict."""
    from judges.items import Item
    from judges.prompts import find, names

    asked, quality, words, verdict = list[str](), list[float](), list[int](), list[bool]()
    for name in names():
        form = find(name, variant="paper")
        for k in range(each):
            texts = [paper_sets.text(rng, rng.uniform()) for _ in range(2)]
            texts[0] += str(rng.choice(paper_sets.DRESSES))
            if name == "correctness" and k % 2:
                texts[0] = str(rng.choice([*TRIGGERS.values()]))
            item = Item(f"i{k}", f"Where is place {k}?", texts[0], texts[1] if form.pairwise else None, "x", "meaning")
            shown = texts if form.pairwise else texts[:1]
            asked.append(f"{form.render(item, SCALES[k % len(SCALES)])}\n\n{form.prefill.rstrip()}")
            quality.append(float(np.mean([t.lower().count(paper_sets.GOOD) - t.count(paper_sets.BAD) for t in shown])))
            words.append(sum(len(t.split()) for t in shown))
            verdict.append("erdict" in form.prefill)
    return asked, np.array(quality), np.array(words, dtype=float), np.array(verdict)


def build(folder: Path, repositories: Sequence[str], each: int = 24) -> None:
    """Write a model for each repository to ``folder/OWNER/NAME``."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    rng = np.random.default_rng(0)
    asked, quality, words, verdict = prompts(rng, each)
    written = tokenizer(
        [*asked[:: max(1, each // 8)], *[f"{paper_sets.GOOD} {paper_sets.BAD} {' '.join(GRADES)} yes no"] * 60]
    )
    config = LlamaConfig(
        vocab_size=len(written),
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=HIDDEN // 2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    (layer,) = model.model.layers
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_()
        for zero in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.mlp.down_proj):
            zero.weight.zero_()
        layer.self_attn.v_proj.weight.copy_(torch.eye(HIDDEN))
        layer.self_attn.o_proj.weight.copy_(ATTENTION * torch.eye(HIDDEN))
    answers = {answer: written.encode(answer, add_special_tokens=False) for answer in (*GRADES, *VERDICTS)}
    assert all(len(tokens) == 1 for tokens in answers.values()), answers
    given = [answers[answer][0] for answer in GRADES], [answers[answer][0] for answer in VERDICTS]

    def read(text: str, answered: list[int]) -> np.ndarray:
        tokens = torch.tensor([[*written.encode(text), *answered]])
        with torch.inference_mode():
            return model.model(tokens).last_hidden_state[0, -1].numpy()

    asking = np.array([read(text, []) for text in asked])
    answering = [
        (text, own, token) for text, own in zip(asked[::3], verdict[::3], strict=True) for token in given[int(own)]
    ]
    after = np.array([read(text, [token]) for text, _, token in answering])
    both = np.vstack([asking, after])

    def reader(target: np.ndarray) -> np.ndarray:
        """Return the weights with which the last state predicts a number."""
        return np.linalg.solve(both.T @ both + 1e-2 * np.eye(HIDDEN), both.T @ target)

    def standard(values: np.ndarray) -> np.ndarray:
        return np.concatenate([(values - values.mean()) / values.std(), np.zeros(len(after))])

    one = reader(np.ones(len(both)))
    ended = reader(np.repeat([0.0, 1.0], [len(asking), len(after)]))
    word = reader(np.concatenate([verdict, [own for _, own, _ in answering]]).astype(float))
    sees, likes = reader(standard(quality)), reader(standard(words))
    for k, repository in enumerate(repositories):
        own = rng.normal(size=HIDDEN)
        own *= 0.5 / (both @ own).std()
        own -= (both @ own).mean() * one
        seen = rng.uniform(0.7, 1.1) * sees + (0.9 if k % 2 else 0.0) * likes + own
        head = np.tile(-60 * one, (len(written), 1))
        for answer, place in {**GRADES, **VERDICTS}.items():
            of_its_kind = word if answer in VERDICTS else one - word
            head[answers[answer][0]] = 40 * (of_its_kind - one) - 60 * ended + 6 * (place * seen - place**2 / 2 * one)
        head[1] = 60 * (ended - 0.5 * one)
        with torch.no_grad():
            model.lm_head.weight.copy_(torch.tensor(head, dtype=torch.float32))
        target = folder / repository
        if k == 0:
            written.save_pretrained(target)
            first = target
        else:
            shutil.copytree(first, target)
        model.save_pretrained(target, safe_serialization=True)
