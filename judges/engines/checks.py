"""Checks for ``care doctor`` that show whether a judge can run."""

import importlib.util
import shutil
from contextlib import closing
from pathlib import Path

from care_ops.errors import CareError, JudgeError, how_to_install
from judges.engines.base import Context
from judges.engines.endpoint import Endpoint, NoAnswerError
from judges.ray_cluster import FROM_ENVIRONMENT, RayConfig
from judges.sandbox import Sandbox, why_unavailable
from judges.spec import JudgeSpec, LanguageModel, LocalModel, OpenAIEngine, ProgramEngine, RecordedEngine


def checks(spec: JudgeSpec, ray: RayConfig = FROM_ENVIRONMENT, root: Path = Path()) -> list[tuple[str, str]]:
    """Check whether a judge can run; return the state (``ok``, ``warns`` or ``fails``) and message of each check.

    Relative paths start at ``root``. Built-in programs and recorded scores need no check.
    """
    rows = list[tuple[str, str]]()
    if spec.engine.needs.template and spec.license is None:
        rows.append(("warns", "the judge's file declares no license; read the model's terms, then add license: NAME"))
    match spec.engine:
        case ProgramEngine(file=None) | RecordedEngine():
            pass
        case ProgramEngine() as engine:
            rows.append(_sandbox(engine, Context(root)))
        case OpenAIEngine() as engine:
            rows += [_endpoint(spec.name, engine), *_prices(engine)]
        case LocalModel() as engine:
            rows += [_engine_installed(), _model_files(engine)]
            if engine.gpus and ray.cluster() is None and shutil.which("nvidia-smi") is None:
                rows.append(("fails", f"this machine has no GPU, but num_gpus is {engine.gpus:g}; set num_gpus: 0"))
    if isinstance(spec.engine, LanguageModel) and spec.engine.profile == "care" and not spec.engine.fence:
        rows.append(
            ("warns", "the prompts have no fence against prompt injection; set fence: true (this rescores all items)")
        )
    return rows


def _sandbox(engine: ProgramEngine, context: Context) -> tuple[str, str]:
    if engine.unsafe:
        return "warns", "the program runs with all your permissions; remove unsafe: true to run it in a sandbox"
    if why := why_unavailable():
        return "fails", why
    try:
        with closing(Sandbox(context.program(engine), engine.timeout_s, engine.memory_mb, "bwrap")) as sandbox:
            sandbox.start()
    except CareError as error:
        return "fails", str(error)
    return "ok", "the program loads in the sandbox bwrap"


def _endpoint(name: str, engine: OpenAIEngine) -> tuple[str, str]:
    where = engine.where
    try:
        endpoint = Endpoint(name, engine.model_copy(update={"timeout_s": min(engine.timeout_s, 10.0)}))
    except JudgeError as error:
        return "fails", str(error)
    try:
        with closing(endpoint):
            code = endpoint.status("/models")
    except NoAnswerError as error:
        reason = endpoint.secrets.hide(str(error))
        return "fails", f"{where} cannot be reached ({reason}); start the server, or correct base_url"
    if code in (401, 403):
        return "fails", f"{where} refuses the key in {engine.api_key_env}; correct the key"
    return "ok", f"{where} answers"


def _prices(engine: OpenAIEngine) -> list[tuple[str, str]]:
    if engine.price is not None:
        return []
    why = "the model's price is missing; set price_in and price_out in the judge's file (US dollars per million tokens)"
    if engine.spend_limit is not None:
        return [("fails", f"CARE cannot enforce the judge's spend_limit: {why}")]
    return [("warns", f"the judge's cost is unknown: {why}")]


def _engine_installed() -> tuple[str, str]:
    if importlib.util.find_spec("vllm") is None:
        return "fails", f"vllm is not installed; {how_to_install('vllm')}"
    return "ok", "engine vllm is installed"


def _model_files(engine: LocalModel) -> tuple[str, str]:
    folder = Path(engine.model)
    if folder.is_dir():
        missing = [name for name in ("config.json", "tokenizer_config.json") if not (folder / name).exists()]
        if missing or not list(folder.glob("*.safetensors")):
            lacking = ", ".join(missing) or "safetensors weights"
            return "fails", f"{folder} lacks {lacking}; copy the complete model"
        return "ok", f"the model is in {folder}"
    if engine.revision is None:
        return "fails", f"there is no folder {engine.model}; correct the path, or add revision: COMMIT for a repository"
    return "ok", f"{engine.model} is a repository; CARE downloads it if the local cache does not have it"
