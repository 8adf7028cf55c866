# Needs a Debian or Ubuntu machine with Python 3.11 or newer, and nothing else: each target installs what it lacks.

# Where it is set, every process of the tests would compile again what has changed since the setup.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: up down clean wheel deb bundle prove-packages prove-upgrades test test-long test-cluster simulate prove-simulation prove-leaders prove-machines prove-community prove-updates prove-sleep prove-doors prove-models prove-stories prove-neighbours prove-restore prove-service prove-handbook prove-limits prove-steady check console handbook image chart unit bench lock

up:
	@scripts/setup run
	@scripts/console build
	@scripts/handbook build
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
	.venv/bin/mypy deploy/image
	.venv/bin/mypy deploy/packages
	.venv/bin/lint-imports
	@scripts/console check

unit:
	@scripts/setup dev
	.venv/bin/pytest -n 2 tests/unit

console:
	@scripts/setup run
	@scripts/console build

# What is served at /docs, from docs/ and from the code.
handbook:
	@scripts/setup run
	@scripts/handbook build

# Moorage's own container image, from Debian's packages and what is here: build/moorage-VERSION.tar. MORE="--name registry.example.com/moorage:1"
image: console handbook
	@.venv/bin/python deploy/image/build.py $(MORE)

# The wheel, with console and handbook in it: build/packages/moorage-VERSION-py3-none-any.whl.
wheel: console handbook
	@.venv/bin/python deploy/packages/wheel.py

# The Debian package for the release with that Python (3.11: Debian 12, 3.13: Debian 13), and the wheel that is in it.
PYTHON ?= 3.11

deb: console handbook
	@.venv/bin/python deploy/packages/deb.py --python $(PYTHON)

# The wheel with all that it needs, for `moor upgrade` on a machine without a network: build/packages/moorage-VERSION-pythonX-ARCH.tar.
bundle: console handbook
	@scripts/setup run
	@.venv/bin/python deploy/packages/bundle.py --python $(PYTHON)

# As root, on Debian; about 15 minutes. Both packages in fresh Debians with systemd: installed, booted again, backed up, removed,
# restored. BASE=folder keeps the Debians for the next time; RELEASE=trixie with PYTHON=3.13.
RELEASE ?= bookworm

prove-packages: deb
	@scripts/setup dev
	MOORAGE_TEST_BASE=$(BASE) MOORAGE_TEST_RELEASE=$(RELEASE) .venv/bin/pytest -s -m proof tests/service/test_installed.py

# As root; about 30 minutes. Real versions, roles, Postgres and HAProxy: each way in which an upgrade can fail, and a kill at each step.
prove-upgrades: console handbook
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/service/test_upgrade.py

# The chart in deploy/helm follows from src/moorage/entrypoints/kubernetes.
chart:
	@scripts/setup dev
	.venv/bin/python -m moorage.entrypoints.kubernetes.chart deploy/helm/moorage

test: check console handbook
	.venv/bin/pytest -n 2 -m "not long and not proof"

test-long: console handbook
	@scripts/setup dev
	.venv/bin/pytest -n 2 -m long

# As root. The programs of a cluster (kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, etcd, containerd, runc, CNI
# plugins, busybox) are looked for in MOORAGE_TEST_KUBERNETES, by default ~/.cache/moorage/kubernetes; without them it says so.
test-cluster: image
	@scripts/setup dev
	MOORAGE_TEST_CLUSTER=1 .venv/bin/pytest -m cluster tests/kubernetes

SEEDS ?= 1-200

simulate:
	@scripts/setup dev
	.venv/bin/python -m tests.simulation.run $(SEEDS) $(MORE)

# Takes an hour or more, so no tier of the tests runs it.
prove-simulation:
	@scripts/setup dev
	.venv/bin/pytest -m proof tests/simulation
	.venv/bin/python -m tests.simulation.find_planted $(MORE)
	.venv/bin/python -m tests.simulation.run 1-200

ROUNDS ?= 100
SEED ?= 1

# About 20 s a round.
prove-leaders:
	@scripts/setup dev
	ROUNDS=$(ROUNDS) SEED=$(SEED) .venv/bin/pytest -m proof -k test_rounds_of_stopped_leaders tests/database/test_leaders.py

# As root, on Debian; about 15 minutes. BASE=folder keeps the machines' Debian for the next time.
prove-machines:
	@scripts/setup dev
	.venv/bin/python -m tests.machines $(BASE)

# As root, on Debian; about 25 minutes. BASE as above.
prove-community:
	@scripts/setup dev
	.venv/bin/python -m tests.machines.community $(BASE)

# About 5 minutes: a hundred requests to a container that sleeps, with kill -9 of each part while they wait, and the figures.
prove-sleep: console
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/acceptance/test_sleep_live.py

# About 10 minutes: every way in which an update can go wrong, under load, with the figures.
prove-updates: console
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/acceptance/test_updates.py tests/acceptance/test_canary.py

# 5 to 20 minutes: a thousand Pods of two tenants on six addresses, with doors and without.
prove-doors:
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/kubernetes/test_address_reuse.py

# With the machine's own certificates, as in scripts/setup.
UV = UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(or $(shell command -v uv),.venv/tools/bin/uv)

# About 2 minutes, and up to 3 GB to download: the parameters of real configurations, counted anew with `transformers` in an
# environment of its own that goes afterwards, and Moorage's own count held to them.
prove-models:
	@scripts/setup dev
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(UV) venv --quiet --python .venv/bin/python "$$folder/environment" && \
	$(UV) pip install --quiet --no-cache --python "$$folder/environment/bin/python" --require-hashes -r requirements-models.lock && \
	HF_HUB_OFFLINE=1 HF_HOME="$$folder" "$$folder/environment/bin/python" tests/models/count_with_transformers.py
	.venv/bin/pytest -q tests/models/test_parameters.py

# About 10 minutes: a thousand stories of buyers and owners against an oracle, and machines at random. MOORAGE_TEST_SEEDS=1-500 for more machines.
prove-stories:
	@scripts/setup dev
	.venv/bin/pytest -n 2 -m "proof or long" tests/database/test_earnings_stories.py tests/database/test_machines_at_random.py

# About 8 minutes, on a machine that does nothing else: what containers that take all they can get cost their neighbour, and slow
# clients whoever else asks.
prove-neighbours: console
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/acceptance/test_noisy_neighbour.py tests/database/test_api_slow_clients.py

# About 7 minutes: a dump restored on an empty machine, and replicas removed by hand, with the time until all serve again.
prove-restore: console
	@scripts/setup dev
	.venv/bin/pytest -s -m proof tests/acceptance/test_vanished.py tests/acceptance/test_backup.py

# About 15 minutes: everything of ours killed, stopped or scaled under load, and every broken deployment explained.
SERVICE = autoscaling_live broken_images kill stopped_leader streams_survive traffic_survives
prove-service: console
	@scripts/setup dev
	.venv/bin/pytest -s -m proof $(SERVICE:%=tests/acceptance/test_%.py) tests/gateway/test_gateway_dying_replicas.py

# About 10 minutes: the whole handbook, typed in from its pages.
prove-handbook: console handbook
	@scripts/setup dev
	.venv/bin/pytest -s -m "proof or long" tests/acceptance/test_handbook.py

# About 8 minutes, most of them waiting: two gateways share a limit, while requests move about, one dies, or Postgres is away.
prove-limits:
	@scripts/setup dev
	.venv/bin/pytest -s -m "proof or long" tests/gateway/test_gateway_limit_shares.py

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

COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11

# The locks name versions and hashes but no index, so any mirror serves.
lock:
	@scripts/setup dev
	$(COMPILE) --group setup -o requirements-setup.lock
	$(COMPILE) pyproject.toml --group build -o requirements-run.lock
	$(COMPILE) --group console -o requirements-console.lock
	$(COMPILE) --group models -o requirements-models.lock
	$(COMPILE) pyproject.toml --group build --group dev -o requirements-dev.lock
	$(COMPILE) pyproject.toml --group build --group dev --group bench -o requirements-bench.lock
	$(COMPILE) --group handbook -c requirements-bench.lock -o requirements-handbook.lock
