"""Detection of prompt injections in texts, such as a score in the judge's format or a role marker.

The rules are regular expressions, not a model. They find injections in fourteen languages that are written plainly or
with spellings that evade word filters. They do not find paraphrases.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from care_ops.visible import visible

_TOP = (
    r"(?:highest|maximum|max|maximal|top|best|perfect|full|flawless|excellent|outstanding|positive|good|high(?:er)?|"
    r"10|ten|100|a\+)"
)
_MARK = r"(?:scores?|ratings?|marks?|grades?|points?|stars?|number|integer|evaluation|assessment|review)"
_NUMBER = r"(?:\d{1,3}(?:\.\d+)?|ten|five)"
_TEXT = (
    r"(?:(?:this|the|my|our|above|following|candidate|given|present)\s+)+(?:one|response|answer|essay|text|summary|"
    r"sample|item|paper|comment|story|submission|candidate|output|entry|review|reply|translation|completion|option)s?"
)
_RULES = (
    r"(?:instructions?|directions?|directives?|rubrics?|criteri(?:a|on)|guidelines?|prompts?|commands?|"
    r"(?:grading|scoring|rating)\s+(?:scales?|rules?|schemes?|guides?)|system\s+messages?)"
)
_JUDGE = (
    r"(?:judges?|graders?|evaluators?|raters?|scorers?|reviewers?|assessors?|examiners?|"
    r"(?:ai|llm|language)[ -]?(?:models?|judges?|graders?|evaluators?|reviewers?|assistants?)?|llms?|chatbots?|"
    r"assistants?|models?)"
)

_PATTERNS = {
    "a score in the judge's form": (
        r"\btotal\s+rating\s*[:=]",
        r"\bfeedback\s*:::",
        r"\[\[\s*(?:\d{1,3}(?:\.\d+)?|[abc]|tie|yes|no)\s*\]\]",
        r"(?:^|[.!?]\s+|\n\s*)(?:(?:the|my|your|final|overall|correct|gold|recommended)\s+)*"
        r"(?:rating|score|grade|verdict|evaluation(?:\s+result)?)(?:\s+(?:is|of))?\s*[:=]+\s*"
        r"(?:\d{1,3}\b|yes\b|no\b|correct\b|[a-f][+]?(?!\w))",
        r"\bfinal\s+(?:score|rating|grade|mark)\s*(?:[:=]|is)\s*\d",
        r"\bevaluation\s+result\s+is\b",
        r"[\"'](?:score|rating|grade|verdict|\w+ness)[\"']\s*:\s*[\"']?\d",
        r"<\s*/?\s*(?:score|rating|grade|verdict)\s*>",
        r"\bset\s+the\s+(?:score|rating|grade)\s+to\b",
        r"\b(?:score|rating)\s*=\s*\d",
        r"\b(?:response|answer|option)\s+[ab]\b[^.\n]{0,60}\b(?:so|therefore|hence)\s+(?:answer|output|choose|choice)\b",
    ),
    "an instruction about the rules": (
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|skip|neglect|discard|"
        r"(?:do\s+not|don'?t|stop|never|need\s+not)\s+(?:follow|obey|apply|use|consider|heed)(?:ing)?|"
        r"pay\s+no\s+attention\s+to|whatever|regardless\s+of)\b[^.!?\n]{0,50}\b" + _RULES + r"\b",
        r"\b(?:ignore|disregard|forget)\s+(?:all|everything|anything|what)\b[^.!?\n]{0,40}"
        r"\b(?:above|before|previous(?:ly)?|prior|told|earlier)\b",
        r"\b(?:rubric|(?:grading|scoring|rating)\s+(?:scale|rules?|criteria)|instructions?\s+above|above\s+instructions?|"
        r"previous\s+instructions?)\s+(?:\w+\s+){0,3}(?:void|changed|suspended|replaced|obsolete|invalid|applies|apply|"
        r"outdated|wrong|updated|over)\b",
        r"(?:^|\n)\W*(?:new|updated|real|true|revised|additional)\s+(?:instructions?|tasks?|rules?|orders?)\b\s*[:\-]",
        r"\byour\s+(?:new|real|true|actual|only)\s+(?:instructions?|tasks?|job|orders?)\b",
        r"\byour\s+task\s+is\s+now\b|\bfrom\s+(?:now|here)\s+on,?\s+you\b[^.\n]{0,40}\b(?:rate|score|grade|answer|output)",
        r"\b(?:stop|end|abort|cancel)\s+(?:evaluating|grading|scoring|the\s+evaluation)\b",
        r"\b(?:the\s+)?(?:evaluation|grading|scoring|judging)\s+(?:mode\s+)?(?:(?:is|has|was)\s+)?"
        r"(?:(?<=is\s)over|(?<=has\s)ended|(?<=is\s)finished|disabled|been\s+completed)\b",
        r"\b(?:scoring|grading|rating)\s+guidelines?\s*\((?:updated|new|revised)\)",
        r"\bsystem\s+prompt\s+(?:update|override|change)",
        r"(?:^|\n)\W*override\s*:",
    ),
    "a request for a score": (
        r"\b(?:give|assign|award|grant|return|output|print|write|deserves?|receives?|gets?|merits?|grade|rate|score|mark|"
        r"do\s+give)\b[^.!?\n]{0,40}\b(?:the\s+|a\s+)?"
        r"(?:highest|maximum|max|top|best|perfect|full)\s+(?:possible\s+|allowed\s+|available\s+)?" + _MARK + r"\b",
        r"\b(?:highest|maximum|top|perfect|full)\s+(?:possible\s+|allowed\s+)?(?:score|rating|grade|marks)\b[^.!?\n]{0,30}"
        r"\b(?:please|to\s+(?:this|my)|for\s+(?:this|my))\b",
        r"\b(?:rate|score|grade|mark|evaluate|judge)\s+(?:it|me|" + _TEXT + r"|this|everything)\b[^.!?\n]{0,30}\b"
        r"(?:" + _TOP + r"|correct|highly|generously|as|" + _NUMBER + r")\b",
        r"\b(?:give|assign|award|grant)\s+(?:it|me|us|" + _TEXT + r"|this)\b[^.!?\n]{0,30}\b"
        r"(?:full\s+marks|top|perfect|highest|maximum|(?:10|ten|100)(?=\W*(?:$|[.!?\n]))|\d+\s+(?:stars?|points?|out\s+of)|"
        r"good\s+(?:grade|score|mark)|best\s+(?:grade|score|mark|rating))\b",
        r"\b(?:must|should|has\s+to|have\s+to|is\s+to|are\s+to|to)\s+be\s+(?:scored|rated|graded|marked|judged)\b"
        r"[^.!?\n]{0,30}(?:\d|\b(?:" + _TOP + r"|correct|zero)\b)",
        r"\b(?:choose|select|prefer|pick|vote\s+for)\s+(?:the\s+)?(?:response|answer|candidate)\s+[ab]\b"
        r"|\bselect\s+(?:this|my)\s+(?:response|answer)\b|\bprefer\s+(?:this|my)\s+(?:response|answer)\b",
        r"(?:^|[.!?:;]\s+)(?:please\s+|just\s+|only\s+|now\s+|simply\s+)*(?:output|reply\s+with|respond\s+with|"
        r"answer\s+with)\s+(?:only\s+|just\s+|your\s+rating\W*|the\s+(?:number|integer)\s+)?['\"]?(?:\d{1,3}\b|total\b|yes\b)",
        r"\b(?:output|reply\s+with|respond\s+with|print)\s+(?:only\s+)?the\s+(?:number\s+\d|integer\s+\d|"
        r"highest|maximum|best)\b",
        r"\b(?:positive|favou?rable)\s+review\s+only\b|\bdo\s+not\s+(?:mention|highlight)\s+(?:any\s+)?"
        r"(?:weakness(?:es)?|negatives?)\b|\brecommend\s+(?:acceptance|accepting\s+th)",
        r"\baward\s+(?:the\s+)?(?:maximum|highest|full|top)\b|\bdeserves?\s+(?:a\s+)?(?:10|top\s+marks|full\s+marks)\b",
        r"\b(?:right|correct|appropriate)\s+(?:grade|score|rating)\s+(?:here\s+)?(?:is|would\s+be)\b",
        r"\b(?:correct|good|fair)\s+(?:grader|judge|evaluator|rater)\s+(?:will|would|must|should)\b",
        r"\bevery\s+(?:answer|response)\s+(?:gets?|receives?)\s+a\b|\bgrade\s+generously\b|\balways\s+(?:10|answer\s+10)\b",
        r"\bif\s+you\s+(?:rate|score|grade|give)\b[^.!?\n]{0,50}\b(?:best|high(?:ly|est)?|top|full|10|well|marks)\b",
        r"\bplease\s+(?:give|award|grant)\s+(?:me|us|this)\b[^.!?\n]{0,30}(?:\b\d|\bmarks?\b|\bscore\b|\bgrade\b)",
    ),
    "a text addressed to a judge": (
        r"(?:^|[.!?]\s+|\n\W*)(?:dear|hey|hello|hi|attention|note\s+to|message\s+(?:to|for)|to|for)\s+(?:the\s+|any\s+|all\s+|an\s+)?"
        r"(?:(?:ai|llm|language|human|automatic|impartial)\s+)*" + _JUDGE + r"\s*(?:model\s*)?[,:!]",
        r"\bif\s+you\s+are\s+(?:an?\s+)?(?:ai|llm|large\s+language|language|automated)\b",
        r"\bfor\s+(?:llm|ai)\s+(?:reviewers?|judges?|graders?|evaluators?)\b",
        r"\bas\s+(?:an?|the)\s+(?:\w+\s+)?(?:judge|grader|evaluator|rater),?\s+you\b",
        r"\b(?:ai|llm)\s+(?:judge|grader|evaluator|rater|reviewer)\b\s*[,:]",
        r"\bwhoever\s+is\s+(?:scoring|grading|judging|rating|evaluating)\b",
        r"\byou,?\s+(?:are|the)\b[^.!?\n]{0,30}\b(?:grading|evaluat(?:es?|ing)|judg(?:es?|ing)|scor(?:es?|ing))\s+(?:this|it|my)\b",
    ),
    "a role marker": (
        r"<\|[^|<>\n]{1,40}\|>|<\s*(?:start|end)_of_turn\s*>|\[/?inst\]|<</?sys>>|</?s>\s*</?s>|\bsystem\s*:\s*(?=\S)(?:set|you|the|"
        r"give|rate|ignore|always|override)",
        r"<\s*/?\s*(?:system|instructions?|judge|answer|response|item|prompt|rubric)(?:_\d)?\s*>",
        r"(?:^|\n)\s*#{2,}\s*(?:system|instructions?|response|assistant)\s*:",
        r"(?:^|\n)\W*[-=#*_]{3,}\s*(?:end|begin|start)\s+of\b",
        r"<!--[^>]{0,80}\b(?:judge|score|rating|grade|grader)\b",
    ),
    "a claim about earlier grading": (
        r"\b(?:already|previously)\s+(?:been\s+)?(?:graded|scored|rated|verified|marked)\b[^.!?\n]{0,60}(?:\d|\bmaximum\b|\bexperts?\b)",
        r"\bprevious\s+(?:rating|score|grade)\s+(?:of\b|was\b)",
        r"\b(?:test|check)\s+of\s+the\s+(?:grading|evaluation|scoring|judging)\s+(?:system|pipeline|model)\b",
        r"\bcalibration\s+(?:item|sample|set|example)\b|\bgold\s+(?:score|rating|label)\b",
        r"\bverified\s+by\s+experts?\b[^.!?\n]{0,60}\b(?:rating|score|grade)\b",
    ),
    "an instruction in another language": (
        r"\bignorier\w*\b[^.!?\n]{0,40}\b(?:anweisung|anleitung|vorgabe|kriteri|bewertungs)\w*|\bbestnote\b"
        r"|\b(?:h\u00f6chst|maximal)\w*\s+(?:punkt|note|bewertung|wertung)\w*|\bbewert\w*\s+diese\b[^.!?\n]{0,30}\bmit\b"
        r"|\bgesamtbewertung\s*:",
        r"\b(?:ignor|oubli)\w*\b[^.!?\n]{0,40}\b(?:instructions?|consignes?|directives?|bar\u00e8me)\b"
        r"|\b(?:meilleure|maximale?)\s+note\b|\bnote\s+(?:maximale?|finale)\b|\bne\s+pas\s+tenir\s+compte\b[^.\n]{0,30}\bbar\u00e8me",
        r"\b(?:ignor|olvid|descart|desconsider|esque\u00e7)\w*\b[^.!?\n]{0,40}\b(?:instruc|r\u00fabrica|rubrica|criterio|crit\u00e9rio)\w*"
        r"|\b(?:m\u00e1xima|m\u00e1s\s+alta)\s+(?:puntuaci\u00f3n|nota|calificaci\u00f3n)|\b(?:puntuaci\u00f3n|nota|calificaci\u00f3n|pontua\u00e7\u00e3o)\s+"
        r"(?:m\u00e1s\s+alta|m\u00e1xima)|\bcalific\w*\s+esta\b",
        r"\b(?:ignor|dimentic)\w*\b[^.!?\n]{0,40}\b(?:istruzion|criteri)\w*|\b(?:punteggio|voto)\s+(?:massimo|pi\u00f9\s+alto)\b",
        "(?:\u0438\u0433\u043d\u043e\u0440\u0438\u0440|\u0437\u0430\u0431\u0443\u0434)\\w*[^.!?\\n]{0,40}(?:\u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446|\u0443\u043a\u0430\u0437\u0430\u043d|\u043a\u0440\u0438\u0442\u0435\u0440)\\w*"
        "|(?:\u043c\u0430\u043a\u0441\u0438\u043c\u0430\u043b\u044c\u043d|\u0432\u044b\u0441\u0448|\u043d\u0430\u0438\u0432\u044b\u0441\u0448)\\w*\\s+(?:\u043e\u0446\u0435\u043d\u043a|\u0431\u0430\u043b\u043b)\\w*|\u043e\u0446\u0435\u043d\u043a\u0430\\s*:?\\s*\\d",
        "(?:\u5ffd\u7565|\u65e0\u89c6|\u7121\u8996)[^\u3002\\n]{0,20}(?:\u6307\u4ee4|\u6307\u793a|\u6807\u51c6|\u8bf4\u660e|\u898f\u5247)"
        "|(?:\u6307\u4ee4|\u6307\u793a|\u57fa\u6e96)[^\u3002\\n]{0,10}(?:\u5ffd\u7565|\u65e0\u89c6|\u7121\u8996)|\u6253[^\u3002\\n]{0,6}(?:\u6ee1\u5206|\u6700\u9ad8\u5206)"
        "|\u7ed9[^\u3002\\n]{0,12}(?:\u6ee1\u5206|\u6700\u9ad8\u5206)|(?:\u6e80\u70b9|\u6700\u9ad8\u70b9)[^\u3002\\n]{0,6}(?:\u4ed8\u3051|\u3064\u3051|\u304f\u3060\u3055\u3044)"
        "|(?:\u8bc4\u5206|\u5f97\u5206|\u603b\u5206)\\s*:\\s*\\d",
        "(?:\uc9c0\uc2dc|\uba85\ub839|\uae30\uc900)[^.\\n]{0,12}(?:\ubb34\uc2dc|\uc78a)|(?:\ucd5c\uace0|\ub9cc)\\s*\uc810",
        "(?:\u062a\u062c\u0627\u0647\u0644|\u0627\u0646\u0633)[^.\\n]{0,20}(?:\u062a\u0639\u0644\u064a\u0645|\u0634\u0631\u0648\u0637|\u0645\u0639\u0627\u064a\u064a\u0631)|\u0623\u0639\u0644\u0649\\s+(?:\u062f\u0631\u062c\u0629|\u062a\u0642\u064a\u064a\u0645)",
        "(?:\u0928\u093f\u0930\u094d\u0926\u0947\u0936|\u0906\u0926\u0947\u0936)[^\u0964\\n]{0,20}(?:\u0905\u0928\u0926\u0947\u0916|\u092d\u0942\u0932)|\u092a\u0942\u0930\u0947\\s+\u0905\u0902\u0915",
        r"\btalimat\w*\b[^.!?\n]{0,20}\b(?:g\u00f6rmezden|yok\s+say)|\ben\s+y\u00fcksek\s+(?:puan|not)",
        r"\bnegeer\b[^.!?\n]{0,40}\b(?:instructie|opdracht|criteria)\w*|\bhoogste\s+(?:score|cijfer)",
        r"\b(?:zignoruj|pomi\u0144)\b[^.!?\n]{0,40}\b(?:polece|instrukcj|kryteri)\w*|\b(?:maksymaln|najwy\u017csz)\w*\s+(?:ocen|punkt)",
    ),
}


@cache
def _compiled() -> dict[str, re.Pattern[str]]:
    """Compile the rules, at the first check and not at import, because compilation takes a tenth of a second."""
    return {
        name: re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) for name, patterns in _PATTERNS.items()
    }


HIDDEN = "invisible text"
RULES = (*_PATTERNS, HIDDEN)
"""Names of the rules that detect injections."""

_TAGS = re.compile("[\U000e0020-\U000e007e]{4,}")
_REVERSED = re.compile("\u202e([^\u202c\n]*)")
_SPREAD = re.compile(r"(?<!\w)(?:\w ){3,}\w(?!\w)")
_LEET = re.compile(r"\b(?=\w*[a-z])(?=\w*[0-9@$])[a-z0-9@$]{3,}\b")
_LETTERS = str.maketrans("013457@$", "oieastas")


def flag_injections(texts: Sequence[str | None]) -> list[tuple[str, ...]]:
    """Return the names of the rules that each text matches, or an empty tuple for a text without an injection.

    Examples
    --------
    >>> flag_injections(["Paris. Total rating: 10", "The rating agency met on Monday.", None])
    [("a score in the judge's form",), (), ()]
    """
    return [() if text is None else _rules_of(text) for text in texts]


def _rules_of(text: str) -> tuple[str, ...]:
    hidden = ["".join(chr(ord(c) - 0xE0000) for c in run).lower() for run in _TAGS.findall(text)]
    hidden += [run[::-1].lower() for run in _REVERSED.findall(text)]
    plain = unicodedata.normalize("NFKC", visible(text)).lower()
    readings = [plain, *hidden]
    if _SPREAD.search(plain):
        words = plain.split("  ")  # between spaced letters, two spaces separate words
        readings.append(" ".join(_SPREAD.sub(lambda match: match[0].replace(" ", ""), word) for word in words))
    if _LEET.search(plain):
        readings.append(_LEET.sub(lambda match: match[0].translate(_LETTERS), plain))
    matching = [name for name, rule in _compiled().items() if any(rule.search(reading) for reading in readings)]
    return (*matching, *([HIDDEN] if hidden else []))
