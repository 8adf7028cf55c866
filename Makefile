# Needs a Debian or Ubuntu machine with Python 3.11 or newer, and nothing else: each target installs what it lacks.

# Where it is set, every process of the tests would compile again what has changed since the setup.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: up down clean test test-long test-cluster simulate prove-simulation prove-leaders prove-machines prove-steady check console unit bench lock

up:
	@scripts/setup run
	@scripts/console build
	@.venv/bin/moor up

down:
	@scripts/setup run
	@.venv/bin/moor down

clean:
	@scripts/setup run
	@.venv/bin/moor clean --yes
	@rm -rf .venv

check:
	@scripts/setup dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy bench
	.venv/bin/lint-imports
	@scripts/console check

unit:
	@scripts/setup dev
	.venv/bin/pytest -n 2 tests/unit

console:
	@scripts/setup run
	@scripts/console build

test: check console
	.venv/bin/pytest -n 2 -m "not long"

test-long: console
	@scripts/setup dev
	.venv/bin/pytest -n 2 -m long

# As root. The programs of a cluster (kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, etcd, containerd, runc, CNI
# plugins, busybox) are looked for in MOORAGE_TEST_KUBERNETES, by default ~/.cache/moorage/kubernetes; without them it says so.
test-cluster:
	@scripts/setup dev
	MOORAGE_TEST_CLUSTER=1 .venv/bin/pytest -m cluster tests/kubernetes

SEEDS ?= 1-200

simulate:
	@scripts/setup dev
	.venv/bin/python -m tests.simulation.run $(SEEDS) $(MORE)

# Takes an hour or more, so no tier of the tests runs it.
prove-simulation:
	@scripts/setup dev
	.venv/bin/python -m tests.simulation.find_planted $(MORE)
	.venv/bin/python -m tests.simulation.run 1-200

ROUNDS ?= 100
SEED ?= 1

# About 20 s a round.
prove-leaders:
	@scripts/setup dev
	ROUNDS=$(ROUNDS) SEED=$(SEED) .venv/bin/pytest -m long -k test_rounds_of_stopped_leaders tests/database/test_leaders.py

# As root, on Debian; about 15 minutes. BASE=folder keeps the machines' Debian for the next time.
prove-machines:
	@scripts/setup dev
	.venv/bin/python -m tests.machines $(BASE)

TIMES ?= 50

# make prove-steady TESTS="tests/unit/test_x.py::test_one …": each time by themselves, so that what fails once in a while shows.
prove-steady: console
	@scripts/setup dev
	@test -n "$(TESTS)" || { echo 'Say which: make prove-steady TESTS="tests/unit/test_x.py::test_one"' >&2; exit 2; }
	@for time in $$(seq $(TIMES)); do echo "$$time of $(TIMES)"; .venv/bin/pytest -q --tb short $(TESTS) || exit 1; done

bench:
	@scripts/setup bench
	.venv/bin/python bench/gateway.py
	.venv/bin/python bench/deploy.py

COMPILE = $(or $(shell command -v uv),.venv/tools/bin/uv) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11

# The locks name versions and hashes but no index, so any mirror serves.
lock:
	@scripts/setup dev
	$(COMPILE) --group setup -o requirements-setup.lock
	$(COMPILE) pyproject.toml --group build -o requirements-run.lock
	$(COMPILE) --group console -o requirements-console.lock
	$(COMPILE) pyproject.toml --group build --group dev -o requirements-dev.lock
	$(COMPILE) pyproject.toml --group build --group dev --group bench -o requirements-bench.lock
