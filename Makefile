# shardid: see README.md. Every target with a ## comment is listed by `make help`.

BIN       := bin/shardid
TOOLS     := $(CURDIR)/.tools
LINT      := $(TOOLS)/golangci-lint-v2.15.0
VULN      := $(TOOLS)/govulncheck-v1.8.0
VALIDATE  := $(TOOLS)/kubectl-validate-v0.0.4
HELM      := $(TOOLS)/helm-v3.22.0
COMPOSE   := $(TOOLS)/compose-go-v2.16.2
NFPM      := $(TOOLS)/nfpm-v2.44.1
CRANE     := $(TOOLS)/crane-v0.22.1
OPERATOR  := $(TOOLS)/prometheus-operator-v0.85.0
FUZZTIME  ?= 30s
DURATION  ?= 1h
BENCHFLAGS ?=
# The packages of all modules: the Go client and gormid have their own, below client/.
ALL        = ./... $(shell go list -m)/client/...
GOTEST    := go test -race -count=1 -timeout 60m
# Without the MessagePack codec of Gin, which nothing here uses: 9 MB less, as in release.sh.
export GOFLAGS := $(strip $(GOFLAGS) -tags=nomsgpack)
# The stores that make test-all uses beside the installed ones.
OTHERS    := mysql-9.7 valkey-9.1

# HOME in `make publish HOME=host/owner` is where to; programs keep the HOME of the user.
ifeq ($(origin HOME),command line)
WHERE := $(HOME)
override HOME := $(shell bash -c 'unset HOME; echo ~')
endif

.DEFAULT_GOAL := help
.PHONY: help run build test test-all test-short test-clients test-deploy test-stores test-servers lint vulncheck references fmt simulate prove soak release test-release publish bench bench-quick bench-once compare fuzz rename clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build and serve on 127.0.0.1:8080, and Redis clients on 6380, with the embedded stores and a demo app
	$(BIN) serve --demo --set resp.addr=127.0.0.1:6380

build: ## build bin/shardid, one static binary
	@[ -e $(BIN) ] || echo "building $(BIN), once: downloads and compiles 600 packages, 170 s of processor time"
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN) ./cmd/shardid

test: ## what decides whether a change lands; installs the servers the tests need; ten minutes
	@scripts/install-test-servers.sh --plan
	@echo "make test: takes 5 minutes on two cores that have nothing else to do, and 9 where nothing is compiled yet"
	@scripts/test.sh

test-all: test ## make test and everything that is too long for it, before a release; about an hour
	@scripts/install-test-servers.sh $(OTHERS)
	@scripts/test-all.sh

test-stores: ## contracts, stories and faults on MySQL 9.7, MariaDB 10.11 and 11.8, Redis 7.0 and 8.0, Valkey 9.1
	scripts/test-stores.sh

test-clients: ## the programs of docs/clients.md and docs/examples, and other clients; installs client libraries of Python, PHP and Node where it may
	scripts/test-clients.sh

test-java: export DEEP = 1
test-java: export SHARDID_TEST_JAVA = 1
test-java: ## the Java client and its starter beside Spring Boot 3 and 4, MyBatis-Plus, Hibernate and ShardingSphere; needs Maven
	@command -v mvn >/dev/null || echo "NOT RUN: the tests of Java, as there is no mvn"
	go test -count=1 -timeout 60m -v -run '^TestJava' ./scripts/stories

test-deploy: export DEEP = 1
test-deploy: $(VALIDATE) $(OPERATOR) $(HELM) $(COMPOSE) ## the files of deploy/ by what reads them, and on stores; builds Helm and others, once: 10 minutes
	scripts/fetch-test-server.sh $(OTHERS) || true
	go test -count=1 ./scripts/deploytest

$(VALIDATE):
	GOBIN=$(TOOLS) go install sigs.k8s.io/kubectl-validate@v0.0.4
	mv $(TOOLS)/kubectl-validate $@

$(HELM):
	GOBIN=$(TOOLS) go install helm.sh/helm/v3/cmd/helm@v3.22.0
	mv $(TOOLS)/helm $@

$(COMPOSE): # what docker compose reads its file with
	GOBIN=$(TOOLS) go install github.com/compose-spec/compose-go/v2/cmd@v2.16.2
	mv $(TOOLS)/cmd $@

$(OPERATOR): # the definitions of its objects
	mkdir -p $@
	cd "$$(go mod download -json github.com/prometheus-operator/prometheus-operator@v0.85.0 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/example/prometheus-operator-crd" && \
	  install -m 0644 monitoring.coreos.com_podmonitors.yaml monitoring.coreos.com_prometheusrules.yaml $@

test-short: ## unit tests only, no server, under a minute
	go vet $(ALL)
	$(GOTEST) -short $(ALL)

test-servers: ## install or fetch the servers of the tests, if missing
	scripts/install-test-servers.sh $(OTHERS)

lint: $(LINT) ## vet and lint
	for module in . client client/gormid scripts/moduleproxy scripts/compare/peers; do (cd $$module && go vet ./... && $(LINT) run ./...) || exit 1; done

$(LINT):
	@echo "building golangci-lint, once: about two minutes"
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

vulncheck: $(VULN) ## look for known vulnerabilities, where their data can be reached; status 3 is a finding
	@$(VULN) $(ALL) || { status=$$?; [ $$status -eq 1 ] && \
	  echo "!!! NOT CHECKED for known vulnerabilities: is https://vuln.go.dev reachable?"; }

$(VULN):
	GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@v1.8.0
	mv $(TOOLS)/govulncheck $@

references: ## write the tables of metrics and error codes in docs/ and openapi.yaml
	go test -count=1 -p 1 ./service/httpapi ./service/observe -run 'TestReferences|TestText' -update

fmt: $(LINT) ## format the sources
	$(LINT) fmt ./... # of all modules

release: $(NFPM) ## binaries, deb and rpm packages, checksums and an SBOM of this commit, into dist/
	NFPM=$(NFPM) scripts/release.sh

test-release: $(NFPM) $(HELM) $(CRANE) ## a release built twice, its package used; make publish DRY=1; needs root, Maven, Debian
	NFPM=$(NFPM) HELM=$(HELM) CRANE=$(CRANE) scripts/test-release.sh

publish: ## publish this commit to HOME=host/owner; with DRY=1 on the loopback, and use it there
	@scripts/publish.sh --check '$(WHERE)'
	@$(MAKE) --no-print-directory $(NFPM) $(HELM) $(CRANE)
	NFPM=$(NFPM) HELM=$(HELM) CRANE=$(CRANE) scripts/$(if $(DRY),test-)publish.sh '$(WHERE)'

$(CRANE):
	GOBIN=$(TOOLS) go install github.com/google/go-containerregistry/cmd/crane@v0.22.1
	mv $(TOOLS)/crane $@

$(NFPM):
	GOBIN=$(TOOLS) go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.1
	mv $(TOOLS)/nfpm $@

simulate: export DEEP = 1
simulate: ## 10 000 simulated deployments with faults between any two steps, and the mutants they catch
	go test -count=1 -v -run TestSimulation ./model -counter.worlds 10000
	go test -count=1 -v -run TestSimulation ./service/queue ./service/worker ./service/segment ./service/sequence

prove: ## check the models of the protocols exhaustively, and that each rule is needed; installs spin, 15 minutes
	scripts/prove/prove.sh

soak: test-servers ## fault injection for DURATION (1h) on real servers; Ctrl-C ends it with a report
	go test -count=1 -timeout 0 -v -run TestSoak ./scripts/faults -soak $(DURATION)

# Redis 7.0, as Debian has it, formats what is pushed half as fast as newer servers.
bench bench-quick: export KV ?= valkey-9.1

bench: test-servers ## compare with bare Gin, a plain design and an atomic add; the goals, 10 minutes
	go test -count=1 -timeout 40m -run '^TestCompare$$' -v ./scripts/bench -compare full $(BENCHFLAGS)

bench-quick: test-servers ## the same, less exact, three minutes; BENCHFLAGS='-only servers' for a part, or library, or growth
	go test -count=1 -timeout 20m -run '^TestCompare$$' -v ./scripts/bench -compare quick $(BENCHFLAGS)

compare: test-servers ## shardid and generators of others through faults, into docs/comparison.md; root and Maven for all, 20 minutes
	go test -count=1 -timeout 40m -run '^TestCompare$$' -v ./scripts/compare -write ../../docs/comparison.md

bench-once: # each benchmark once, so that none rots
	go test -short -run '^$$' -bench . -benchtime 1x $(ALL)

fuzz: ## run each fuzz target for FUZZTIME (30s)
	@go list $(ALL) | while read -r pkg; do \
	  go test -list '^Fuzz' $$pkg | grep '^Fuzz' | while read -r name; do \
	    echo "== $$pkg $$name"; go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done || exit 1; \
	done

rename: ## give the Go modules the path MODULE, in each go.mod and all imports
	@scripts/rename-module.sh "$$MODULE"

clean: ## remove what was built; the data folder stays
	rm -rf bin .tools
