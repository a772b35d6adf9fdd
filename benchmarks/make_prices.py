"""Write judges/prices.yaml from the price table in a wheel of litellm (MIT licence).

python -m benchmarks.make_prices litellm-1.110.2-....whl 2026-11-25
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

_TABLE = "litellm/model_prices_and_context_window_backup.json"
_HOSTS = {
    "anthropic": "api.anthropic.com",
    "deepseek": "api.deepseek.com",
    "gemini": "generativelanguage.googleapis.com",
    "groq": "api.groq.com",
    "mistral": "api.mistral.ai",
    "openai": "api.openai.com",
    "xai": "api.x.ai",
}
_NOT_ASKED = re.compile(
    r"audio|search|^ft:|computer|realtime|live|image|tts|container|robotics|research|lyria|guard|omni"
)
_TARGET = Path(__file__).parents[1] / "judges" / "prices.yaml"
_HEAD = """\
# Prices of endpoints in US dollars per million tokens, by host and model: input, cached input, output.
# Written by benchmarks/make_prices.py; a judge's price_in, price_cached and price_out override them. Some hosts charge
# more for prompts above 200,000 tokens, for writing a cache, or for service tiers: set such prices in the judge's file.
date: {date}
source: litellm {version}
prices:
"""


def main() -> None:
    wheel, date = Path(sys.argv[1]), sys.argv[2]
    with zipfile.ZipFile(wheel) as archive:
        table: dict[str, dict[str, Any]] = json.loads(archive.read(_TABLE))
    lines = [_HEAD.format(date=date, version=wheel.name.split("-")[1])]
    for provider, host in sorted(_HOSTS.items(), key=lambda pair: pair[1]):
        lines.append(f"  {host}:\n")
        rows = {name: row for name, row in table.items() if row.get("litellm_provider") == provider}
        models = {name.removeprefix(f"{provider}/"): row for name, row in rows.items()}
        lines += [line for name in sorted(models) if (line := _line(name, models[name]))]
    _TARGET.write_text("".join(lines), encoding="utf-8")


def _line(name: str, row: dict[str, Any]) -> str:
    read, written = row.get("input_cost_per_token"), row.get("output_cost_per_token")
    if row.get("mode") != "chat" or _NOT_ASKED.search(name) or not read or not written:
        return ""
    prices = (read, row.get("cache_read_input_token_cost") or read, written)
    return f"    {json.dumps(name)}: [{', '.join(f'{price * 1e6:.6g}' for price in prices)}]\n"


if __name__ == "__main__":
    main()
