"""Look-up of a repository's current commit on the Hugging Face hub."""

import importlib
from typing import Any, Literal

from care_ops.errors import JudgeError, guard, how_to_install


def look_up(repository: str, kind: Literal["model", "dataset"] = "model") -> tuple[str, bool]:
    """Return the main-branch commit of a Hugging Face repository, and whether a user must accept its terms.

    The request uses the token in ``HF_TOKEN`` or from ``hf auth login``. Raises ``JudgeError`` if ``huggingface_hub``
    is not installed, the repository does not exist, or the hub does not answer.
    """
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise JudgeError(f"huggingface_hub is not installed ({error}); {how_to_install('huggingface')}") from error
    errors: Any = importlib.import_module("huggingface_hub.errors")
    with guard(f"the hub's answer about {repository!r}", "try again later", JudgeError):
        try:
            found = hub.HfApi().repo_info(repository, repo_type=kind, timeout=20)
        except errors.RepositoryNotFoundError as error:
            raise JudgeError(
                f"Hugging Face has no repository {repository!r}, or the repository is private; correct its name in "
                "the YAML file, or set HF_TOKEN to the token of an account with access"
            ) from error
    return str(found.sha), bool(found.gated)
