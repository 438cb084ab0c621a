# Everything sets itself up: each target needs only Python >= 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for disks and other processes a third of their time: three keep two cores busy.
PROCESSES ?= 3
HOME_DIR := $(if $(CURRICULUM_HOME),$(CURRICULUM_HOME),workspace)

# Images of containers often set it, and then each process would compile each module again.
unexport PYTHONDONTWRITEBYTECODE

# Extras of pyproject.toml that a target needs; requirements.lock pins their versions. uv takes the build of torch that
# suits the machine. A demo compiles the modules that it imports; for tests, whose sandboxed processes write nothing, all
# cores compile all modules, and leave out files that are templates of code.
EXTRAS.demo := train,clang
EXTRAS.serve := $(EXTRAS.demo),dashboards
EXTRAS.docs := docs
EXTRAS.dev := $(EXTRAS.serve),dev
UV := $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --torch-backend=auto,$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile) -c requirements.lock

.PHONY: help setup demo ablate test test-system test-slow check docs bench serve lock clean

help:
	@echo "make demo                       build, mix and train the sample corpus in five minutes"
	@echo "make demo REPOS=\"path path\"     the same on your own clones"
	@echo "make ablate                     phases against one flat mix: twelve short trainings, half an hour"
	@echo "make test                       the default test suite"
	@echo "make test-system                servers, browsers, the demo, whole trainings: three quarters of an hour"
	@echo "make test-slow                  the same killed at random and at length: hours"
	@echo "make check                      format, lint, spelling, types, layers"
	@echo "make docs                       the documents as a site in site/"
	@echo "make bench                      measurements against installed peers"
	@echo "make serve                      the Prefect UI on 127.0.0.1"

# A stamp is touched last, so what was interrupted starts again.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=python3.11")'
	$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	@touch $@

$(VENV)/.demo $(VENV)/.serve $(VENV)/.docs $(VENV)/.dev: requirements.lock pyproject.toml | $(VENV)/.python
	@echo "Installing $(EXTRAS$(@F)) into $(VENV): at least 200 MB, a minute or more ..."
	$(INSTALL) -e ".[$(EXTRAS$(@F))]"
	$(if $(filter .dev,$(@F)),@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true)
	@touch $@

setup: $(VENV)/.dev

demo: $(VENV)/.demo
	@$(BIN)/curriculum demo --home $(HOME_DIR) $(foreach path,$(REPOS),--repo $(path))

ablate: setup
	@$(BIN)/curriculum ablate benchmarks/ablations/small.yaml --home $(HOME_DIR) $(foreach path,$(REPOS),--repo $(path))

test: setup
	@$(BIN)/pytest -m "not slow and not system" -n $(PROCESSES)

test-system: setup
	@$(BIN)/pytest -m "system and not slow" -n $(PROCESSES)

test-slow: setup
	@$(BIN)/pytest -m slow -n $(PROCESSES)

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/codespell README.md SECURITY.md mkdocs.yml docs benchmarks schemas curriculum flows dashboards
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The variable silences an advertisement.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html opens in a browser; $(BIN)/mkdocs serve adds the search, and follows edits"

bench: setup
	@$(INSTALL) -e ".[$(EXTRAS.dev),bench]"
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

serve: $(VENV)/.serve
	@$(BIN)/curriculum serve --home $(HOME_DIR)

# What is locked stays; take a line out to let it move.
lock: setup
	$(BIN)/pip-compile --quiet --constraint requirements.lock --extra dev --extra dashboards --extra train --extra clang --strip-extras --no-header --no-annotate \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o - pyproject.toml \
	    | grep -v '^\#' | sed 's/+cpu//; 1i \# The exact set that CI and the demo install; made by `make lock` from pyproject.toml.' \
	    > requirements.lock.new && mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) $(HOME_DIR) site
