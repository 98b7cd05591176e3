# make help lists what there is.

PORT       = 5432
ADMIN_PORT = 9432
BACKEND    = dsql
PAIRING    = transaction
SCALE      = 5
WORKFLOWS  = 100
CHAOS      = 200
ROUNDS     = 5
DIALOGUES  = 20000
SEED       = 1
RUNFLAGS   = --port $(PORT) --admin-port $(ADMIN_PORT) --backend $(BACKEND) --pairing $(PAIRING) --scale $(SCALE)

# What is built, and for the image: which version, from which Go image.
ARCH     = $(shell go env GOHOSTARCH)
BIN      = bin
VERSION  = $(shell .ci/version)
REVISION = $(shell git rev-parse HEAD)
BUILD_IMAGE ?= golang:1.26-bookworm

.PHONY: help run build check test deps lint unit race integration charts temporal temporal-suites temporal-limits temporal-chaos temporal-bench fuzz applications cases dialogues mutants bench bench-quick profile image image-test e2e-kubernetes release clean
.DEFAULT_GOAL = help

help: ## this list
	@grep -hE '^[a-z0-9 -]+:.*## ' Makefile | sed -E 's/^([a-z0-9 -]+):.*## /  \1	/' | expand -t 42

run: ## Sluice in front of a local stand-in for DSQL, until Ctrl-C (PORT= ADMIN_PORT= BACKEND=postgres PAIRING=session)
	@.ci/tools && .ci/install postgresql
	@. .ci/env && go build -o bin/ ./integration/devrun && bin/devrun --check $(RUNFLAGS)
	@$(MAKE) --no-print-directory build
	@exec bin/devrun $(RUNFLAGS)

build: ## bin/sluice and bin/dsqlsim, static, with musl (ARCH=arm64 BIN=)
	@.ci/tools
	@echo "building (the first time, the SQL parser takes a few minutes)"
	@.ci/build $(BIN) $(ARCH)

check: ## a minute or two before a change is sent: format, vet, staticcheck, structure, and the packages that differ from main
	@.ci/stages $@

test: ## everything: the stages below, how long each took, and the slowest packages
	@.ci/stages

deps lint unit race integration charts fuzz: ## one stage of the test
	@.ci/stages $@

temporal: ## 100 workflows of all kinds on a Temporal server through Sluice while commits fail (WORKFLOWS=)
	@.ci/tools && .ci/install postgresql
	@WORKFLOWS=$(WORKFLOWS) .ci/stages $@

temporal-suites: ## Temporal's own tests of its persistence, on the stand-in through Sluice
	@.ci/tools && .ci/install postgresql
	@.ci/stages $@

temporal-limits: ## what exceeds DSQL's limits, with Temporal's own below them and without; and a minute without the cluster
	@.ci/tools && .ci/install postgresql
	@.ci/stages $@

temporal-chaos: ## 200 workflows and more while everything behind Temporal is disturbed, and while its shards move (CHAOS=)
	@.ci/tools && .ci/install postgresql
	@CHAOS=$(CHAOS) .ci/stages $@

temporal-bench: ## what the pause before a replay costs Temporal, and what Sluice and the stand-in do (ROUNDS=)
	@.ci/tools && .ci/install postgresql
	@ROUNDS=$(ROUNDS) .ci/stages $@

applications: ## applications of the tools that people use, on PostgreSQL and through Sluice: docs/applications.md
	@.ci/tools && .ci/stages deps
	@.ci/stages $@

cases: ## for hours: all cases of proxy's tests, and many random ones, of which make test plays a part
	@.ci/tools && .ci/install postgresql
	@.ci/stages $@

dialogues: ## 20,000 random dialogues, compared with PostgreSQL (DIALOGUES= SEED=)
	@.ci/tools && .ci/install postgresql
	@DIALOGUES=$(DIALOGUES) SEED=$(SEED) .ci/stages $@

mutants: ## every fix that a mutant takes out: do the dialogues, or the test that is named, notice?
	@.ci/tools && .ci/install postgresql
	@.ci/stages $@

# What is measured is what is released.
bench bench-quick: export PGO = cmd/sluice/default.pgo

bench: build ## compare with PgBouncer and with no proxy; writes docs/bench.json and the tables made of it
	@.ci/install postgresql pgbouncer
	@. .ci/env && go run ./integration/bench --bin bin && go run ./integration/bench table

bench-quick: build ## five workloads in about 90 s: the ratios to PgBouncer beside docs/bench.json; fails where one is 10 % worse
	@.ci/install postgresql pgbouncer
	@. .ci/env && go run ./integration/bench --bin bin --quick

profile: build ## the profile that Sluice is compiled by (cmd/sluice/default.pgo), taken anew in about three minutes
	@.ci/install postgresql pgbouncer
	@. .ci/env && go run ./integration/bench --bin bin --profile cmd/sluice/default.pgo

image: ## the images sluice and dsqlsim, with buildah or docker (ARCH= VERSION= BUILD_IMAGE=)
	@.ci/tools
	@.ci/image $(BIN)/image/$(ARCH) $(ARCH) "$(VERSION)" "$(REVISION)" "$(BUILD_IMAGE)"

image-test: ## try the images: built twice, no rights, SIGTERM with sessions open, arm64; as root
	@.ci/tools && .ci/image-test

e2e-kubernetes: ## pods with Sluice on a real Kubernetes of one node, as root; the first time it builds that for some 15 minutes
	@.ci/tools
	@.ci/e2e-kubernetes

release: ## what a tag releases, in bin/release: images, programs, chart, contents, notes, checksums
	@.ci/tools && .ci/release $(BIN)/release "$(BUILD_IMAGE)"

clean: ## remove what was built
	@rm -rf bin
