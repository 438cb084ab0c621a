# Every target installs what it needs. You need only Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests spend a third of their time waiting for disks and other processes, so three processes keep two cores busy.
PROCESSES ?= 3
# Benchmarks that need no arguments. The docstrings of the other files in benchmarks/ show their arguments.
BENCHMARKS ?= attention block_mask code_lines conv gpu interop loading loss mamba memory mixing packing pages parsing rows startup tokenising training
HOME_DIR := $(if $(CURRICULUM_HOME),$(CURRICULUM_HOME),workspace)

# Container images often set this variable. Then every process would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# Extras of pyproject.toml that a target needs. requirements.lock pins their versions. uv chooses the build of torch for
# this machine. Without --no-compile, pip would compile all modules on one core. The demo compiles the modules that it
# imports. Sandboxed processes of tests can't write compiled modules, so for tests all modules are compiled, on all cores.
# Files that are templates of code fail to compile, which is ignored.
EXTRAS.demo := train,clang
EXTRAS.serve := $(EXTRAS.demo),dashboards
EXTRAS.docs := docs
EXTRAS.dev := $(EXTRAS.serve),dev
UV := $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --torch-backend=auto,$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile) -c requirements.lock

.PHONY: help setup demo ablate test test-system test-slow check docs bench serve lock clean

help:
	@echo "make demo                       build, mix and train on the sample corpus; takes five minutes"
	@echo "make demo REPOS=\"path path\"     build, mix and train on your own clones"
	@echo "make ablate                     compare phases with a single mixture; twelve short trainings, half an hour"
	@echo "make test                       run the default tests"
	@echo "make test-system                run tests with servers, browsers and trainings; three quarters of an hour"
	@echo "make test-slow                  run tests that kill processes at random or take long; hours"
	@echo "make check                      check format, lint, spelling, types and layers"
	@echo "make docs                       build the documentation as a website in site/"
	@echo "make bench                      run the benchmarks that need no arguments"
	@echo "make serve                      start the Prefect UI and the dashboards on 127.0.0.1"
	@echo "make setup                      install everything that tests and checks need"
	@echo "make lock                       update requirements.lock from pyproject.toml"
	@echo "make clean                      delete the virtual environment, the workspace and the website"

# The stamp is touched last, so an interrupted installation starts again.
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

# The variable hides an advertisement for another tool.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html in a browser. For search and live updates, run $(BIN)/mkdocs serve."

bench: setup
	@$(INSTALL) -e ".[$(EXTRAS.dev),bench]"
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

serve: $(VENV)/.serve
	@$(BIN)/curriculum serve --home $(HOME_DIR)

# Locked versions stay. To update a package, first delete its line from requirements.lock.
lock: setup
	$(BIN)/pip-compile --quiet --constraint requirements.lock --extra dev --extra dashboards --extra train --extra clang --strip-extras --no-header --no-annotate \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o - pyproject.toml \
	    | grep -v '^\#' | sed 's/+cpu//; 1i \# The exact set that CI and the demo install; made by `make lock` from pyproject.toml.' \
	    > requirements.lock.new && mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) $(HOME_DIR) site
