"""Python interface of CARE, which aggregates the scores of several judges into one score per item.

>>> import care_eval
>>> scores = {
...     "item_id": [f"answer {k}" for k in range(40)],
...     "gpt": [(k * 7) % 10 for k in range(40)],
...     "claude": [(k * 7) % 10 + k % 2 for k in range(40)],
...     "qwen": [(k * 7) % 10 + k % 3 for k in range(40)],
... }
>>> result = care_eval.fit(scores, aggregators=["care", "avg"], intervals=0)
>>> result.recommended, len(result.estimate)
('care', 40)
>>> result.to_frame().column_names
['item_id', 'care', 'avg']

docs/data.md describes the interface. In the wheel, CARE's other packages are subpackages of this one
(``deploy/namespaced.py``). Names are imported lazily; otherwise, importing a subpackage would import the whole package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from care_eval.rating import gate, rate
    from care_eval.result import FitResult
    from care_eval.table import fit
    from care_ops.errors import CareError, FitError, InputError
    from care_ops.estimators import CareEstimator

__all__ = [
    "CareError",
    "CareEstimator",
    "FitError",
    "FitResult",
    "InputError",
    "fit",
    "gate",
    "rate",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; choose from {', '.join(__all__)}")
    if name.endswith("Estimator"):
        from care_ops import estimators as module
    elif name.endswith("Error"):
        from care_ops import errors as module
    elif name.endswith("Result"):
        from care_eval import result as module
    elif name in ("gate", "rate"):
        from care_eval import rating as module
    else:
        from care_eval import table as module
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
