# Two commands: `make sweep` runs the main job, `make test` lints, type-checks and tests.
# Both create the virtual environment on first use and are quick afterwards.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PINS := infra/constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint $(PINS)

.PHONY: sweep league reproduction test test-ray test-cluster lint types format pins clean
.DELETE_ON_ERROR:

sweep: $(VENV)/.run-ready
	$(BIN)/permlab sweep quick name=quick 'method=[ordering,kernels,identity,augment,sum,sort,set2set]' d=10 'seed=[0,1]'

# docs/league.md from a new run: about 40 minutes on two cores.
league: $(VENV)/.run-ready
	$(BIN)/permlab sweep league name=league
	$(BIN)/permlab report league --league docs

# Files in the order of tests/conftest.py: by their number of tests, the longest would come last, and one worker wait.
test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not ray and not cluster"

# Sweeps on real Ray clusters, with kills: about six minutes on two cores.
test-ray: $(VENV)/.test-ready
	$(BIN)/python -m pytest -m ray

# The stack of infra/ on this machine: nodes killed, servers restarted, hosts cut off.
test-cluster: $(VENV)/.test-ready
	$(BIN)/python -m pytest -m cluster

lint: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy reads packages from folders, so it gets the same mapping as the wheel, as links.
types: $(VENV)/.test-ready
	@mkdir -p $(VENV)/types/permlab
	@for part in datasets platform readouts tasks; do ln -sfn "$(CURDIR)/$$part" $(VENV)/types/permlab/$$part; done
	@ln -sfn "$(CURDIR)/platform/api/__init__.py" $(VENV)/types/permlab/__init__.py
	cd $(VENV)/types && MYPYPATH=. ../bin/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p permlab

# docs/reproduction.md and its pictures, from docs/data.
reproduction: $(VENV)/.run-ready
	$(BIN)/permlab reproduction

format: $(VENV)/.test-ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "PermLab needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-ready: $(VENV)/bin/python pyproject.toml $(PINS)
	@echo "Installing PermLab into $(VENV): about 3 minutes the first time"
	$(PIP) --editable '.[fast,qm9]'
	@touch $@

$(VENV)/.test-ready: $(VENV)/bin/python pyproject.toml $(PINS)
	@echo "Installing PermLab and its test tools into $(VENV): about 3 minutes the first time"
	$(PIP) --editable '.[fast,qm9,postgres,cluster,dev]'
	@touch $(VENV)/.run-ready $@

# Writes the versions installed now as the pins of every later install.
pins: $(VENV)/.test-ready
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//' > $(PINS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
