"""The hub of models: which commit a repository is at, and whether its terms must be accepted.

Belongs here: asking the hub. Does not belong here: loading a model (``engines``), writing a judge's file.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from care_ops.errors import JudgeError


@dataclass(frozen=True)
class HubModel:
    """A repository as the hub describes it.

    Attributes
    ----------
    revision : str
        Commit of its main branch, 40 hexadecimal digits.
    gated : bool
        Whether its files are given only to accounts that have accepted its terms.
    """

    revision: str
    gated: bool


def look_up(repository: str) -> HubModel:
    """Ask the hub about a repository; the token is the one in ``HF_TOKEN`` or of ``hf auth login``.

    Raises
    ------
    JudgeError
        ``huggingface_hub`` is not installed, there is no such repository, or the hub does not answer.
    """
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise JudgeError(f"asking the hub needs huggingface_hub; install 'care-eval[huggingface]' ({error})") from error
    errors: Any = importlib.import_module("huggingface_hub.errors")
    try:
        model = hub.HfApi().model_info(repository, timeout=20)
    except errors.RepositoryNotFoundError as error:
        raise JudgeError(
            f"the hub knows no repository {repository!r}, or shows it only with a token (HF_TOKEN) of an account that "
            "may see it; correct the name in the judge's file"
        ) from error
    except (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise JudgeError(f"the hub did not answer about {repository!r} ({first}); try again later") from error
    return HubModel(str(model.sha), bool(model.gated))
