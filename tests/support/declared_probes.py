"""Which kinds of probes are true of which set, and why: the table over which harm and gain are counted.

A kind that keeps quality (a dress) is true of a set where gold, as that set defines it, cannot change by it. A kind
that spoils is true where gold cannot rise by it and falls wherever the original had something to lose. What is not
declared is not used, also where it would probably do.

The table was written before any estimator that reads probes existed and before any of these probes had been judged. It
holds every set of CARE_DATA_DIR that has texts and gold, the demo, and ``procedures``; ``elements`` was added later,
before anything had been scored on it. Sets without texts (hanna,
triviaqa_judges_v1) or without gold (bias_perturb) cannot take part; ``ABSENT`` says so.

Fixed with it: 60 items a set, drawn by the hash of their ids and a seed; seed 0 is reported, seeds 1 to 3 beside it;
judges are all built-in programs that vary on the set; figures are Kendall's tau (AUC for binary gold) over all items.

Belongs here: the table. Belongs elsewhere: how a text is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

DRESSES = ("padding", "formatting", "citation", "compliment", "hedging", "announcement")
SPOILS = ("other_prompt", "sentences", "one_fact", "two_facts", "all_facts", "negation")
SWAP = "swap"
"""Of pairs: both responses change places. Gold turns round, and nothing else."""


@dataclass(frozen=True)
class Declaration:
    """What is true of a set.

    Attributes
    ----------
    dresses, spoils : tuple of str
        Kinds that keep quality, and kinds that cost some.
    why : str
    where : str
        Column and value of the items of which it is true; empty for all.
    """

    dresses: tuple[str, ...]
    spoils: tuple[str, ...]
    why: str
    where: str = ""


DECLARED: dict[str, Declaration] = {
    "demo": Declaration(
        DRESSES,
        SPOILS,
        "Gold is the F1 of right facts. No dress states, withdraws or changes a fact of the four that are asked; each "
        "way of spoiling takes right facts away or puts wrong ones in their place, and a denied fact is not stated.",
    ),
    "procedures": Declaration(
        DRESSES,
        SPOILS,
        "Gold counts steps with the right number, in order. No dress touches a step; another goal's steps, exchanged "
        "sentences and numbers and denied steps are wrong here.",
    ),
    "elements": Declaration(
        DRESSES,
        SPOILS,
        "Gold counts right facts by their worth. No dress states or takes back one of the six facts; the answer about "
        "another element, exchanged sentences, names and numbers, and denied facts are wrong here, or tell less.",
    ),
    "llmbar": Declaration(
        (SWAP,),
        ("other_prompt",),
        "An answer to another instruction does not follow this one. Dresses are not declared: instructions limit "
        "length and form, so padding or a compliment can break them; and most of these pairs do not differ in facts.",
    ),
    "prd_vicuna80": Declaration(
        (SWAP,),
        ("other_prompt",),
        "Gold is what people preferred, which style may move: no dress is declared. An answer to another question is "
        "worse for anybody.",
    ),
    "care_asset": Declaration(
        ("formatting",),
        ("other_prompt", "all_facts"),
        "Of the raters' three aspects only meaning is certain: a simplification of another sentence, or one with other "
        "names and numbers, does not keep it, and bold type changes no meaning. Padding makes a text less simple.",
        where="aspect is meaning",
    ),
    "care_civilcomments": Declaration(
        ("formatting", "announcement"),
        (),
        "Gold is toxicity. Form and a neutral opening leave it; nothing here makes a comment surely more toxic.",
    ),
    "dices350": Declaration(
        ("formatting",),
        (),
        "Gold is safety of the last turn. Another turn may be safer, a citation may mislead: only form is certain.",
    ),
    "frank": Declaration(
        ("formatting",),
        ("other_prompt", "all_facts"),
        "Gold is factuality against an article. A summary of another article, or other names and numbers, is not "
        "supported; padding and citations state what the article does not.",
    ),
}

ABSENT: dict[str, str] = {
    "hanna": "its texts are not there",
    "triviaqa_judges_v1": "the answers' texts are not there",
    "bias_perturb": "it has no gold",
}
