"""Fetches the weights of the next judges' models from the hub while others score.

On a cluster each node fetches what its actors load, when they load it: nothing is fetched ahead.
"""

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from care_ops.errors import CareError
from judges import hub
from judges.ray_cluster import FROM_ENVIRONMENT, RayConfig
from judges.spec import JudgeSpec, LocalModel

_log = logging.getLogger(__name__)


@contextmanager
def fetching_ahead(
    judges: Sequence[JudgeSpec], has_work: Callable[[JudgeSpec], bool], ray: RayConfig = FROM_ENVIRONMENT
) -> Generator[None]:
    """Fetch the models of these judges in their order, in the background, until the block ends.

    Only those count whose model is a repository of the hub and which ``has_work`` says, shortly before, have anything
    to score. A download that is under way at the end of the block goes on; it ends with the process. A model that
    cannot be fetched is left to its judge, which fails with the reason. Nothing is fetched where ``ray`` names a
    cluster, whose machines fetch models themselves.
    """
    models = [(judge, judge.engine) for judge in judges if isinstance(judge.engine, LocalModel)]
    waiting = [(judge, e.model, e.revision) for judge, e in models if e.revision and not Path(e.model).is_dir()]
    ended = threading.Event()

    def fetch() -> None:
        for judge, model, revision in waiting:
            if ended.is_set():
                return
            try:
                if has_work(judge):
                    _log.info("Judge %r: fetching %s while others score.", judge.name, model)
                    hub.fetch(model, revision)
                    _log.info("Judge %r: %s is here.", judge.name, model)
            except CareError as error:
                _log.info("Judge %r: its model was not fetched ahead (%s).", judge.name, error)

    if waiting and ray.cluster() is None:
        threading.Thread(target=fetch, name="fetching models", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
