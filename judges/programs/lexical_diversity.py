"""Language quality by vocabulary, whatever the length."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words

_WINDOW = 50


@program_judge("lexical_diversity", family="style", criterion="language quality")
def lexical_diversity(item: Item) -> float | None:
    """Mean share of different words in windows of fifty; abstains below ten words."""
    said = words(item.response)
    if len(said) < 10:
        return None
    windows = [said[k : k + _WINDOW] for k in range(0, max(len(said) - _WINDOW, 0) + 1, _WINDOW // 2)]
    return bounded(sum(len(set(window)) / len(window) for window in windows) / len(windows))
