"""Language quality by readability."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words


@program_judge("readability", family="style", criterion="language quality")
def readability(item: Item) -> float | None:
    """Flesch reading ease by textstat, cut to 0-100; abstains below three words."""
    from textstat import textstat

    if len(words(item.response)) < 3:
        return None
    return bounded(float(textstat.flesch_reading_ease(item.response or "")) / 100)
