"""The hub: which commit a repository is at, whether its terms must be accepted, and a model's files."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

from care_ops.errors import JudgeError, door, how_to_install

_LOADED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
_NOT_LOADED = ("original/*", "consolidated*")
"""Copies of the weights in the form of whoever trained the model, beside those that the engines load."""


def look_up(repository: str, kind: Literal["model", "dataset"] = "model") -> tuple[str, bool]:
    """The commit of a repository's main branch, and whether its terms must be accepted to have its files.

    The hub is asked with the token in ``HF_TOKEN`` or of ``hf auth login``.

    Raises ``JudgeError`` where ``huggingface_hub`` is not installed, there is no such repository, or the hub does not
    answer.
    """
    hub = _hub()
    with _told(repository):
        found = hub.HfApi().repo_info(repository, repo_type=kind, timeout=20)
    return str(found.sha), bool(found.gated)


def fetch(repository: str, revision: str) -> None:
    """Bring what the engines load of a model into the hub's cache on this machine; what is there stays.

    Raises ``JudgeError`` where ``huggingface_hub`` is not installed, the files cannot be had, or there is no space for
    them.
    """
    hub = _hub()
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()  # the terminal shows who scores
    with _told(repository):
        hub.snapshot_download(repository, revision=revision, allow_patterns=_LOADED, ignore_patterns=_NOT_LOADED)


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise JudgeError(f"asking the hub needs huggingface_hub; {how_to_install('huggingface')} ({error})") from error


@contextmanager
def _told(repository: str) -> Generator[None]:
    """Turn what may go wrong between here and the hub into a ``JudgeError``."""
    errors: Any = importlib.import_module("huggingface_hub.errors")
    with door(f"the hub's answer about {repository!r}", "try again later", JudgeError):
        try:
            yield
        except errors.RepositoryNotFoundError as error:
            raise JudgeError(
                f"the hub knows no repository {repository!r}, or shows it only with a token (HF_TOKEN) of an account "
                "that may see it; correct the name in its file"
            ) from error
