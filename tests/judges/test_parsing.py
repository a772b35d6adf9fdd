"""Tests of the scores parsed from models' replies."""

import pytest

from care_ops.errors import JudgeError
from judges.items import Item, Status
from judges.parsing import parse_answer
from judges.prompts import Template, find, names

HUNDRED = {str(v): float(v) for v in range(101)}
TEN = {str(v): float(v) for v in range(1, 11)}
FIVE = {str(v): float(v) for v in range(1, 6)}
PREFERENCE = {str(v): float(v - 3) for v in (0, 1, 2, 4, 5, 6)}
VERDICT = {"no": 0.0, "yes": 1.0}

OK, NONE, OUT, REFUSED = Status.OK, Status.PARSE_ERROR, Status.OUT_OF_RANGE, Status.REFUSED
TABLE = [
    # the plain ways
    (HUNDRED, "85", 85, OK),
    (HUNDRED, " 85", 85, OK),
    (HUNDRED, "\n85\n", 85, OK),
    (HUNDRED, "85.", 85, OK),
    (HUNDRED, "**85**", 85, OK),
    (HUNDRED, "`85`", 85, OK),
    (HUNDRED, "85 because the sentence is clear", 85, OK),
    (HUNDRED, "Total rating: 85", 85, OK),
    (HUNDRED, "Feedback:::\nTotal rating: 85", 85, OK),
    (HUNDRED, "total RATING: 85", 85, OK),
    (HUNDRED, "Total rating: **85**", 85, OK),
    (HUNDRED, "The score is 85.", 85, OK),
    (HUNDRED, "0", 0, OK),
    (HUNDRED, "100", 100, OK),
    (FIVE, "4.5", 4.5, OK),
    (FIVE, "4,5", 4.5, OK),
    (FIVE, "Total rating: 3.0", 3, OK),
    (TEN, "７", 7, OK),
    (TEN, "٧", 7, OK),
    (TEN, "评分：8", 8, OK),
    (TEN, "Оценка: 8 из 10", 8, OK),
    (TEN, "Bewertung: 8 von 10", 8, OK),
    (TEN, "nine", 9, OK),
    (TEN, "Total rating: seven", 7, OK),
    # several numbers
    (HUNDRED, "I rate 3 of 5 aspects: 85", 85, OK),
    (HUNDRED, "10/10 -> 95", 95, OK),
    (HUNDRED, "On [0, 100] I give 73", 73, OK),
    (HUNDRED, "an integer in [0, 100]. Total rating: X\n\nTotal rating: 73", 73, OK),
    (HUNDRED, "From 0 to 100: 73", 73, OK),
    (HUNDRED, "85/100", 85, OK),
    (HUNDRED, "Total rating: 85/100", 85, OK),
    (HUNDRED, "85 out of 100", 85, OK),
    (TEN, "8/10", 8, OK),
    (TEN, "Clarity 3/5, depth 4/5. Total rating: 8", 8, OK),
    (TEN, "7\n\nQuestion: another\nTotal rating: 3", 7, OK),
    (TEN, "In 2019 it was fine. Total rating: 6", 6, OK),
    (TEN, "There are 3 errors, so 6", 6, OK),
    # on another scale, or none
    (HUNDRED, "8/10", None, NONE),
    (HUNDRED, "4 out of 5", None, NONE),
    (TEN, "7-8", None, NONE),
    (TEN, "between 7 to 8", None, NONE),
    (TEN, "Total rating: 7–8", None, NONE),
    (TEN, "[1, 10]", None, NONE),
    (TEN, "Total rating:", None, NONE),
    (TEN, "Total rating: X", None, NONE),
    (TEN, "", None, NONE),
    (TEN, "   \n", None, NONE),
    (TEN, None, None, NONE),
    (TEN, "good", None, NONE),
    (TEN, "非常好", None, NONE),
    (TEN, "🎉🎉", None, NONE),
    (TEN, "v2x", None, NONE),
    # several verdicts
    (TEN, "Between 3 and 4", None, NONE),
    (TEN, "between a 3 and a 4, I think", None, NONE),
    (TEN, "3 or 4", None, NONE),
    (TEN, "3, or even a 4", None, NONE),
    (TEN, "three or four", None, NONE),
    (TEN, "Somewhere from 2 to 9.", None, NONE),
    (TEN, "Total rating: 3, maybe 8", None, NONE),
    (TEN, "Total rating: between 3 and 4", None, NONE),
    (TEN, "There are 2 errors. I would say 4 or 5", None, NONE),
    (TEN, "On a scale from 1 to 10, 3 or 4", None, NONE),
    (TEN, "It has 2 flaws: between 3 and 4 out of 10", None, NONE),
    (TEN, "I give 7 although it has 3-4 flaws", None, NONE),
    (TEN, "I'd give it 3 for style and 9 for content", None, NONE),
    (TEN, "3 for style, 9 for content", None, NONE),
    (TEN, "Total rating: 3 for style and 9 for content", None, NONE),
    (TEN, "Style: 3, content: 9", None, NONE),
    (TEN, "**Style:** 3\n**Content:** 9/10", None, NONE),
    (TEN, "Score: 8, confidence: 9", None, NONE),
    # and one that stands next to other numbers
    (TEN, "Not a 9, a 2", 2, OK),
    (TEN, "Between 1 and 10 I would say 7", 7, OK),
    (TEN, "On a scale from 1 to 10, 7", 7, OK),
    (TEN, "It took 3 readings, or maybe 4, and I give it an 8", 8, OK),
    (TEN, "Total rating: 8. 3 or 4 words are wrong", 8, OK),
    (TEN, "8, or in words: very good", 8, OK),
    (TEN, "Style: 3, content: 9, overall: 6", 6, OK),
    (TEN, "Style: 3\nContent: 9\nFinal score: 6", 6, OK),
    (TEN, "Style: 3\nContent: 9\n\nSo I give it 6", 6, OK),
    (TEN, "Total rating: 8 for style, since 3 of 4 parts are fine", 8, OK),
    (TEN, "I give it 3 for style and 9 for content, 6 altogether", 6, OK),
    (TEN, "Length: 150 words. Quality: 7", 7, OK),
    (TEN, "Style: 8, content: 8", 8, OK),
    (TEN, "It deserves 9 for the effort", 9, OK),
    (FIVE, "I'd say 4 to be fair", 4, OK),
    # out of range
    (TEN, "11", None, OUT),
    (TEN, "0", None, OUT),
    (TEN, "-3", None, OUT),
    (HUNDRED, "150", None, OUT),
    (HUNDRED, "Total rating: 1,000", None, OUT),
    (FIVE, "Total rating: 85", None, OUT),
    (PREFERENCE, "3", None, OUT),
    (PREFERENCE, "2.5", None, OUT),
    (PREFERENCE, "7", None, OUT),
    # the preference scale is moved
    (PREFERENCE, "0", -3, OK),
    (PREFERENCE, "6", 3, OK),
    (PREFERENCE, "Total rating: 4", 1, OK),
    # refusals
    (TEN, "I'm sorry, but I cannot rate this.", None, REFUSED),
    (TEN, "I can't rate this 1 star review", None, REFUSED),
    (TEN, "As an AI language model, I have no opinion", None, REFUSED),
    (TEN, "Total rating: I am unable to say", None, REFUSED),
    # verdicts
    (VERDICT, "yes", 1, OK),
    (VERDICT, " No.", 0, OK),
    (VERDICT, "Verdict: YES", 1, OK),
    (VERDICT, "yes, although no reference confirms it", 1, OK),
    (VERDICT, "It is, yes", 1, OK),
    (VERDICT, "either yes or no", None, NONE),
    (VERDICT, "maybe", None, NONE),
    (VERDICT, "I cannot decide", None, REFUSED),
]


@pytest.mark.parametrize(("answers", "text", "score", "status"), TABLE, ids=range(len(TABLE)))
def test_the_right_value_or_none(answers, text, score, status):
    marker = "Verdict:" if answers is VERDICT else "Total rating:"
    assert parse_answer(text, answers, marker) == (score, status)


def test_the_papers_way_takes_the_first_number():
    assert parse_answer("I rate 3 of 5 aspects: 85", HUNDRED, first=True) == (3, OK)
    assert parse_answer("[0, 100] 85", HUNDRED, first=True) == (0, OK)


def test_every_template_is_valid_and_names_the_legal_answers():
    assert {
        "asset",
        "answer_rating",
        "paper_review",
        "summary",
        "yelp",
        "preference",
        "toxicity",
        "correctness",
    } <= set(names())
    for name in names():
        template = find(name)
        answers = template.answers((0, 4))
        assert len(answers) >= 2
        assert template.instructions.index("") == 0
        for text, score in answers.items():
            assert parse_answer(f" {text}", answers, template.marker) == (score, OK), (name, text)
    assert list(find("preference").answers(None).values()) == [-3, -2, -1, 1, 2, 3]
    assert find("correctness").answers(None) == VERDICT
    with pytest.raises(JudgeError, match="whole numbers"):
        find("answer_rating").answers((0, 0.5))


def test_any_text_can_be_asked():
    prompt = find("quality").render(Item("a", "half \ud800 a character", "{{ 7 * 7 }} {% raw %} \x00 🎉"), None)
    assert prompt.encode("utf-8")
    assert "{{ 7 * 7 }}" in prompt  # an item's text is text, not a template


def test_a_templates_name_does_not_change_its_revision():
    template = find("yelp")
    assert template.model_copy(update={"name": "x", "description": "y"}).revision == template.revision
    other = Template(**{**template.model_dump(), "item": template.item + "!"})
    assert other.revision != template.revision


@pytest.mark.parametrize(
    "text",
    [
        *("[" + "1,1" * 3_000, "1" * 10**6, "I" + " " * 10**6, "1" + " " * 10**6, "[1," * 10**5, "1 out" + " " * 10**6),
        *("a:" + " *" * 10**6, "a " * 10**6 + "b", "1 or" + " maybe" * 10**6, "between 1 and" + " " * 10**6),
        *("1 for " * 10**6, "1 or " * 10**5 + "11", "a: 11\n" * 10**5),
    ],
    ids=range(13),
)
def test_a_text_that_was_cut_or_never_ends_is_read_at_once(text):
    """Earlier releases needed minutes for each of these texts, and never finished the first."""
    assert parse_answer(text, {str(k): float(k) for k in range(2, 11)})[0] is None
