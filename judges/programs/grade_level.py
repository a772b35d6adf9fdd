"""Language quality by school years: neither a primer nor a treaty."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words


@program_judge("grade_level", family="style", criterion="language quality")
def grade_level(item: Item) -> float | None:
    """Distance of the Flesch-Kincaid grade (textstat) from nine; nine years off is no mark."""
    from textstat import textstat

    if len(words(item.response)) < 3 or not (item.response or "").isascii():
        return None
    grade = float(textstat.flesch_kincaid_grade(item.response or ""))
    return bounded(1 - abs(grade - 9) / 9)
