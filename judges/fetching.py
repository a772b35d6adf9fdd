"""Hugging Face hub: commits of repositories, and download of the next judges' models while others score.

On a cluster each node downloads what its actors load, when they load it.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from care_ops.errors import CareError, JudgeError, guard, how_to_install
from judges.ray_cluster import FROM_ENVIRONMENT, RayConfig
from judges.spec import JudgeSpec, LocalModel

_LOADED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
_NOT_LOADED = ("original/*", "consolidated*")
"""Further copies of the weights, in the trainers' own format."""

_log = logging.getLogger(__name__)


@contextmanager
def fetching_ahead(
    judges: Sequence[JudgeSpec], has_work: Callable[[JudgeSpec], bool], ray: RayConfig = FROM_ENVIRONMENT
) -> Generator[None]:
    """Fetch the models of these judges in their order, in the background, until the block ends.

    Judges without a repository of the hub, or for which ``has_work`` returns False, are skipped. A download that is
    open at the end of the block ends with the process. A model that cannot be fetched is left to its judge, which fails
    with the reason. Nothing is fetched if ``ray`` names a cluster.
    """
    models = [(judge, judge.engine) for judge in judges if isinstance(judge.engine, LocalModel)]
    waiting = [(judge, e.model, e.revision) for judge, e in models if e.revision and not Path(e.model).is_dir()]
    ended = threading.Event()

    def fetch_all() -> None:
        for judge, model, revision in waiting:
            if ended.is_set():
                return
            try:
                if has_work(judge):
                    _log.info("Judge %r: fetching %s while others score.", judge.name, model)
                    fetch(model, revision)
                    _log.info("Judge %r: %s is here.", judge.name, model)
            except CareError as error:
                _log.info("Judge %r: its model was not fetched ahead (%s).", judge.name, error)

    if waiting and ray.cluster() is None:
        threading.Thread(target=fetch_all, name="fetching models", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def look_up(repository: str, kind: Literal["model", "dataset"] = "model") -> tuple[str, bool]:
    """Look up the commit of a repository's main branch, and whether its terms must be accepted first.

    The hub is asked with the token in ``HF_TOKEN`` or of ``hf auth login``.

    Raises ``JudgeError`` if ``huggingface_hub`` is not installed, there is no such repository, or the hub does not
    answer.
    """
    hub = _hub()
    with _hub_errors(repository):
        found = hub.HfApi().repo_info(repository, repo_type=kind, timeout=20)
    return str(found.sha), bool(found.gated)


def fetch(repository: str, revision: str) -> None:
    """Download the files of a model that the engines load into the hub's cache on this machine.

    Raises ``JudgeError`` if ``huggingface_hub`` is not installed, a download fails, or there is no disk space.
    """
    hub = _hub()
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()  # the terminal shows who scores
    with _hub_errors(repository):
        hub.snapshot_download(repository, revision=revision, allow_patterns=_LOADED, ignore_patterns=_NOT_LOADED)


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise JudgeError(f"asking the hub needs huggingface_hub; {how_to_install('huggingface')} ({error})") from error


@contextmanager
def _hub_errors(repository: str) -> Generator[None]:
    """Turn errors of the hub's client into a ``JudgeError``."""
    errors: Any = importlib.import_module("huggingface_hub.errors")
    with guard(f"the hub's answer about {repository!r}", "try again later", JudgeError):
        try:
            yield
        except errors.RepositoryNotFoundError as error:
            raise JudgeError(
                f"the hub knows no repository {repository!r}, or shows it only with a token (HF_TOKEN) of an account "
                "that may see it; correct the name in its file"
            ) from error
