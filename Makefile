# Every target works in a fresh checkout; "make" lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --warn-undefined-variables

# Further arguments of go test, as in: make test TESTFLAGS='-run Duplicate -v'
TESTFLAGS ?=
# Arguments of the benchmark, as in: make bench BENCHFLAGS='-sections all'
BENCHFLAGS ?=
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# The folders of all modules: the published one and those that only tests and stories need.
MODULES := $(shell go list -m -f '{{.Dir}}' 2>/dev/null)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-14s %s\n", $$1, $$2 }'

.PHONY: test
test: cc ## Run all tests with -race against real servers, starting what is not up
	scripts/services run -- go run ./internal/runtests -- -race -shuffle=on -p 2 -timeout 20m $(TESTFLAGS)

.PHONY: test-short
test-short: ## Run the tests that need no servers, and print what was skipped
	go run ./internal/runtests -any-skip -- $(TESTFLAGS)

.PHONY: lint
lint: fmt-check ## Run go vet and the linters in all modules
	for module in $(MODULES); do (cd "$$module" && go vet ./... && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check:
	files=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	[ -z "$$files" ] || { echo "not formatted, run make fmt:" $$files; exit 1; }

.PHONY: bench
bench: ## Measure Sekali beside its peers on servers of its own; BENCHFLAGS='-h' lists the choices
	scripts/services run --instance bench postgres rabbitmq -- go run ./internal/bench $(BENCHFLAGS)

.PHONY: bench-go
bench-go: ## Run the packages' own Go benchmarks against real servers
	scripts/services run -- go test -run '^$$' -bench . -benchmem -p 1 $(TESTFLAGS) ./...

.PHONY: services-up
services-up: ## Start PostgreSQL, MariaDB and RabbitMQ for tests: then eval "$(scripts/services env)"
	scripts/services up

.PHONY: services-down
services-down: ## Stop what services-up started and delete its data
	scripts/services down

.PHONY: demo
demo: ## Show Sekali at work: no services needed
	go run ./examples/quickstart

# The race detector needs cgo, and cgo a C compiler.
.PHONY: cc
cc:
	@command -v gcc >/dev/null || command -v "$${CC:-cc}" >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; \
		else \
			echo "the race detector needs a C compiler: install the package gcc (and libc6-dev)"; exit 1; \
		fi; }
