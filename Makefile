# Two commands do it all on a fresh Debian machine with Go: `make demo` and `make test`.
GO       ?= go
comma    := ,
# By another name: a recipe that names $(MAKE) itself runs even under make -n.
SUBMAKE  := $(MAKE)
# What the tests need, in GiB: build caches, disks of clusters and of guests.
ROOM     := 20
BIN      := bin
PACKAGES := ./...
VERSION  := $(shell git describe --tags --always --dirty=-modified 2>/dev/null)
# Programs are static, as guests need them; so is all that is compiled for tests, which is then compiled once. Only the race
# detector needs cgo.
export CGO_ENABLED := 0
# Without the names of folders in it, what was compiled once serves every clone and work tree.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
LDFLAGS  := -X github.com/holdfast-storage/holdfast/cmd/daemon.version=$(VERSION)
LAB      := HOLDFAST_REQUIRE_LAB=1 HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast
LOGS     := .cache/test
# Guests wait more than they compute, so labs that share nothing run side by side.
TOGETHER := deploy/side-by-side.sh $(LOGS)
# What runs in a lab of its own beside the others; and one half of the scenarios: what is not named is the other half.
SANITY   := ^TestCSISanityFromAGuest$$
HALF     := ^(TestRandomFaults|TestPowerLossLosesNoAcknowledgedWrite|TestAPrimaryThatIsCutOffLoses|TestAFreedNameIsANewVolume|TestS57_S58_S59_S60_ASiteFencesALiveWriterOfAnother|TestS61_BothReplicasGiveBackWhatWasDeleted)$$
# Of the tests of clusters, the short form leaves these to the long one; of those of guests, make test has one in its short form, of
# replication without controllers, and make lab the others.
LONG_CLUSTERS := ^(TestACommandThatFaultsEveryControllerIsSkipped|TestContentSurvivesKilledNodesAndLeaders|TestCSISanityOfV1_13|TestTwoBuildsHoldOneState|TestS29_S33_TwoOrchestratorsUseTheSameNames|TestADeadControllerIsReplacedUnderLoad|TestStageAndPublishTenTimesOver|TestS72_TwoBuildsRollOverBadLinks)$$
BARE     := ^TestDRBD$$
# With the kernel that deploy/user-mode-linux.sh installs, the short form also has clusters of guests, one at a time.
FASTER   := /usr/local/lib/user-mode-linux/linux.uml
GUARDED  := ^(TestALostPeerFreezesIOWithoutAQuorum|TestS9_ADirectWriterOfAPrimaryThatIsCutOff|TestAlertsOfReplicas)$$
# Replication between sites, in a lab of its own; the short form has the loss of a site, a forced promotion, and the alerts.
SITES    := S38|^TestReplicationRows|^TestPublishedClientsReplicate|^TestAlertsOfSites$$
SHORT    := ^(TestS30_S38_S41_S42_ASiteLosesItsPower|TestS38_S40_S44_S48_AStaleSiteIsPromotedByForce|TestAlertsOfSites)$$

# The packages whose tests are of whole clusters, real and simulated; those of all others are unit tests.
SYSTEMS  := -e /jepsen/cluster -e /jepsen/conformance -e /jepsen/lab -e /jepsen/sim -e /jepsen/raftsim

# What has goroutines: its tests run under the race detector, but for those that mostly wait for devices, in the short form.
RACED    := raftnode executor csi admin kube/loop
DEVICES  := ^TestSnapshots(ByCopying|BySharing|WithoutDirectIO)$$

# Tests have a short form, which make test runs, and a long one: LONG=1.
SHORTLY  := $(if $(LONG),,-short)
SEEDS    := 250

# The chart's tests are modules of their own: Helm as a library is not the product's. What is rendered is decoded into the
# types of two versions of Kubernetes, those of either module.
CHART    := deploy/chart/rendertest
DECODED  := github.com/holdfast-storage/holdfast/$(CHART)/decode

.PHONY: all build deps room quick check alerts formatted generate chart chart-test pages-test kubernetes-test lint test unit race sims system drills rows conformance lab lab-bench jepsen jepsen-long jepsen-replay planted mutants demo demo-dr dev bench kubernetes image image-lock image-check image-tools deb deb-check clean help

all: build

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## build bin/holdfast
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/holdfast ./cmd/holdfast

deps: ## install the Debian packages that are missing
	@sh deploy/packages.sh

room:
	@GO='$(GO)' sh deploy/room.sh $(ROOM)

quick: formatted ## while you work: generated code, format, vet, and short unit tests of the packages that differ from main; needs no root, installs nothing (IMPORTERS=1: also of the packages that import those)
	@mkdir -p .cache && GO='$(GO)' sh deploy/changed.sh $(if $(IMPORTERS),-importers) >.cache/changed
	$(GO) run ./cmd/protogen -check
	$(GO) vet $(PACKAGES)
	$(GO) test -vet=off -short . $$(grep -v $(SYSTEMS) .cache/changed)

check: formatted ## generated code, format, vet, linters, import rules: nothing may differ; needs no root, installs nothing
	$(GO) run ./cmd/protogen -check
	$(MAKE) --no-print-directory lint
	$(GO) test . ./cmd/lint/... ./cmd/observability

alerts: deps ## the alert rules and their unit tests, and the dashboard, as Prometheus reads them
	CI=1 $(GO) test -count=1 ./cmd/observability

formatted:
	@bad=$$(find . -name '*.go' -not -name '*.pb.go' -not -path './.cache/*' -exec gofmt -l {} +) || exit 1; \
	test -z "$$bad" || { echo "not gofmt-ed:"; echo "$$bad"; exit 1; }

generate: ## make the generated code again
	$(GO) run ./cmd/protogen

chart: ## render deploy/kubernetes and the pages of deploy/chart from the chart
	mkdir -p deploy/kubernetes
	cd $(CHART) && $(GO) test -vet=off -count=1 -run 'Current$$' . -args -write

chart-test: ## the chart by Helm 3 and 4: what it renders is current, decodes strictly for two versions of Kubernetes, and asks for no more than it needs
	cd $(CHART) && $(GO) vet . $(DECODED) && $(GO) test -vet=off . $(DECODED)
	cd $(CHART)/decode && $(GO) test -vet=off .

pages-test: build ## every command and manifest of docs and of README.md, by the program that would run it: holdfast, kubectl, Helm 3 and 4, the chart
	cd docs/pagetest && $(GO) vet . && HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast $(GO) test -vet=off .

lint: ## go vet, staticcheck, errcheck, errorlint, determinism of fsm and executor/plan, sealed choices
	$(GO) build -o $(BIN)/lint ./cmd/lint
	$(GO) vet -vettool=$(BIN)/lint -tags bench $(PACKAGES)
	$(GO) tool go-check-sumtype $(PACKAGES)

# Everything is compiled once before the parts begin. Those that compute come first, then clusters, two at a time, which mostly wait. Guests
# without controllers hold no elections, and take what clusters leave; those with controllers come last. What is named after another part begins when that has ended.
test: deps room build ## all tests in their short form, and what each part took; needs root for devices, mounts and guests (LONG=1: the long form, for hours)
	$(GO) build $(PACKAGES)
	@$(TOGETHER) check '$(SUBMAKE) check' unit:check '$(SUBMAKE) unit' sims:unit '$(SUBMAKE) sims' race:unit '$(SUBMAKE) race' \
	  chart:sims '$(SUBMAKE) chart-test' pages:chart '$(SUBMAKE) pages-test' image:pages '$(SUBMAKE) image-check' kubernetes:image '$(SUBMAKE) kubernetes-test' \
	  system:race "$(SYSTEM)" drills:race '$(DRILLS)' rows:drills '$(ROWS)' guests:$(if $(LONG),rows,drills) "$(GUESTS)" \
	  $(if $(LONG),scenarios-2:guests "$(SECOND)" sites:scenarios-2 "$(THIRD)" drbd:sites "$(DRBD)" backends:drbd "$(BACKENDS)")
	@$(if $(LONG),,echo 'left to make lab, which has all of the guests, and to make test LONG=1, beside longer runs:' && echo '$(LONG_CLUSTERS)' | tr -d '^()$$' | tr '|' '\n')

unit: ## unit tests of the packages that race does not run (LONG=1: their long form, and of those that race runs in the short form)
	list=$$(GO='$(GO)' sh deploy/unit-packages.sh $(SHORTLY) '$(RACED)' $(SYSTEMS)) && $(GO) test -vet=off $(SHORTLY) -timeout 30m $$list
	$(if $(LONG),,$(GO) test -vet=off -short -run '$(DEVICES)' ./executor/loopfile)

# The state machine starts no goroutine: its tests that do say so by their names, which one of its tests checks.
race: ## the packages with goroutines, under the race detector
	CGO_ENABLED=1 $(GO) test -vet=off -race -run 'WhileApplyGoesOn$$' ./fsm
	CGO_ENABLED=1 $(GO) test -vet=off -race -short -timeout 30m $(if $(LONG),,-skip '$(DEVICES)') $(RACED:%=./%/...) ./jepsen/raftsim

sims: ## simulations: seeds of faults over the executors and over Raft members, on virtual time; needs no root (LONG=1: a thousand)
	$(GO) test -vet=off -count=1 -timeout 30m ./jepsen/sim $(if $(LONG),,-args -sim.seeds=$(SEEDS))
	$(GO) test -vet=off -count=1 -timeout 30m ./jepsen/raftsim

CLUSTERS  = HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast $(if $(LONG),HOLDFAST_LONG=1) $(GO) test -count=1 -timeout 60m -p 1 -v
DRILLED   = ./jepsen/cluster/verbs/... ./jepsen/cluster/runbooks/...
# Named outright: an empty list would be the tests of the module's root, which pass. On one line: within quotes, a list of several
# lines would be as many commands.
SYSTEM    = $(CLUSTERS) $(if $(LONG),,-skip '$(LONG_CLUSTERS)') ./jepsen/cluster $$($(GO) list ./jepsen/cluster/... | grep -v -e /verbs -e /runbooks -e 'cluster$$' | tr '\n' ' ')
DRILLS    = $(CLUSTERS) $(DRILLED)
ROWS      = HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast $(GO) test -count=1 -timeout 30m ./jepsen/conformance

system: deps build ## real clusters: csi-sanity, the published clients of CSI-Addons, crashes, full disks, corrupted files (LONG=1: the long form)
	$(SYSTEM)

drills: deps build ## real clusters: each verb killed at each of its steps, and the runbooks to the letter (LONG=1: the long form)
	$(DRILLS)

rows: deps build ## every row of CSI against a real cluster; fails when one passes no longer
	$(ROWS)

conformance: deps build ## the same, and write jepsen/conformance/CONFORMANCE.md
	HOLDFAST_CONFORMANCE_OUT=$(CURDIR)/jepsen/conformance/CONFORMANCE.md $(ROWS)

KERNELS   = $(LAB) $(if $(LONG),HOLDFAST_LONG=1) $(GO) test -count=1 -p 1 -timeout 60m -v
BACKENDS  = $(KERNELS) -skip ^TestDRBD ./jepsen/lab ./jepsen/lab/place ./jepsen/lab/writer ./jepsen/lab/stamps
DRBD      = $(KERNELS) -run ^TestDRBD ./jepsen/lab
SCENARIOS = $(LAB) $(GO) test -count=1 -timeout $(if $(LONG),240m,60m) -v ./jepsen/lab/scenarios
LONGER    = $(if $(LONG),-args -long)
FIRST     = $(SCENARIOS) -run '$(HALF)' $(LONGER)
GUESTS    = $(if $(LONG),$(FIRST),nice -n 5 env $(KERNELS) -short -run '$(BARE)' ./jepsen/lab && if test -x $(FASTER); then nice -n 5 env $(SCENARIOS) -run '$(GUARDED)'; else echo 'left to make lab, without the kernel of deploy/user-mode-linux.sh: $(GUARDED)'; fi)
SECOND    = $(SCENARIOS) -skip '$(HALF)|$(SANITY)|$(SITES)' $(LONGER)
FROMAGUEST = $(SCENARIOS) -run '$(SANITY)' $(LONGER)
THIRD     = $(SCENARIOS) -run '$(if $(LONG),$(SITES),$(SHORT))' $(LONGER)

lab: deps build ## guests with kernels, disks and networks of their own: replication, power loss, partitions, the loss of a site (LONG=1: the long form)
	@$(TOGETHER) backends '$(BACKENDS)' scenarios-1 "$(FIRST)" scenarios-2 "$(SECOND)" sites "$(THIRD)" drbd:sites '$(DRBD)' sanity:drbd "$(FROMAGUEST)"

lab-bench: deps build ## the table of figures of replicated volumes, measured in the lab
	$(LAB) $(GO) test -count=1 -timeout 60m -v -run '^TestFigures$$' ./jepsen/lab/scenarios -args -figures

# Each run takes seeds that none before had, and leaves its page in .cache/jepsen/reports.
CAMPAIGN  = $(GO) build -o $(BIN)/campaign ./jepsen/campaign && HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast $(BIN)/campaign
LAYERS    = sim,raftsim,cluster$(if $(LAB_TOO),$(comma)lab)

jepsen: deps build ## ten minutes of faults over simulations and real clusters, with a page for each run (LAB_TOO=1: and over guests; MINUTES=: other than ten)
	$(CAMPAIGN) -for $(or $(MINUTES),10)m -layers $(LAYERS)

jepsen-long: deps build ## the same for HOURS=; interrupted, it continues where it was
	@test -n "$(HOURS)" || { echo 'say for how long: make jepsen-long HOURS=10'; exit 2; }
	$(CAMPAIGN) -for $(HOURS)h -portion 5m -resume -dir .cache/jepsen-long -layers $(LAYERS)

jepsen-replay: deps build ## one seed again, with its story: SEED=sim:17
	@test -n "$(SEED)" || { echo 'say which: make jepsen-replay SEED=sim:17'; exit 2; }
	$(CAMPAIGN) -replay $(SEED)

planted: ## bugs that are planted in the product, each against the layer that must find it; writes jepsen/planted/PLANTED.md (WITHIN=: processor time for each)
	$(GO) run ./jepsen/planted -within $(or $(WITHIN),25s) $(if $(FRESH),-fresh) $(if $(ONLY),-only $(ONLY) -page '')

mutants: ## one-line changes of what decides, each against the tests of its package and the simulation; resumable, writes jepsen/mutants/MUTANTS.md (COUNT=, FRESH=1, AGAIN=1: the survivors once more)
	$(GO) run ./jepsen/mutants $(if $(COUNT),-count $(COUNT)) $(if $(FRESH),-fresh) $(if $(AGAIN),-again)

demo: deps build ## a cluster that loses its leader in the middle of a burst, as a story
	$(GO) build -o $(BIN)/demo ./jepsen/demo
	$(BIN)/demo --binary $(CURDIR)/$(BIN)/holdfast

demo-dr: deps build ## two sites, one of which loses its power in the middle of a burst of writes, as a story; in guests, as make lab
	$(GO) build -o $(BIN)/drdemo ./jepsen/drdemo
	$(BIN)/drdemo --binary $(CURDIR)/$(BIN)/holdfast

dev: deps build ## leave a cluster running in .cache/dev until interrupted
	$(BIN)/holdfast dev --dir $(CURDIR)/.cache/dev

bench: deps build ## the table of figures
	$(GO) run ./jepsen/bench/report

# What is shipped is built without the names of folders, so that it is the same wherever it is built; its time is the commit's.
# IMAGE_MIRROR is the address of a day in Debian's archive of snapshots, and after it that of its security updates; without it
# the packages come from the mirrors of this machine's apt, which may no longer have the versions of packages.lock.
RELEASED  = .cache/release/holdfast
RELEASE   = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w $(LDFLAGS)' -o $(RELEASED) ./cmd/holdfast
IMAGES    = $(CURDIR)/deploy/image
COMMIT    = -version '$(VERSION)' -revision "$$(git rev-parse HEAD)" -epoch "$$(git log -1 --format=%ct)"
IMAGETOOL = $(GO) run -C $(IMAGES) . $(1) -dir $(IMAGES) -repository $(CURDIR) -lock $(IMAGES)/packages.lock -mirror '$(IMAGE_MIRROR)' $(COMMIT)

image-tools:
	@command -v mmdebstrap >/dev/null || sh deploy/image/install-tools.sh

image: image-tools ## the OCI image, from Debian packages of exact versions: .cache/image/holdfast.tar, and .cache/image/oci (IMAGE_MIRROR=: from a dated mirror)
	$(RELEASE)
	@$(call IMAGETOOL,image) -binary $(CURDIR)/$(RELEASED) -out $(CURDIR)/.cache/image

# The short form's program is linked from what `make build` compiled, in little time; the long form compiles the one that is
# shipped, in two folders.
CHECKED   = .cache/image-check/holdfast
image-check: image-tools ## build the image twice, compare both, and call the programs in it (LONG=1: also the program that is shipped)
	$(GO) vet -C $(IMAGES) ./...
	$(GO) test -C $(IMAGES) ./...
	$(if $(LONG),$(RELEASE) && sh deploy/image/compare-release.sh $(RELEASED) "$(GO)" '-s -w $(LDFLAGS)')
	$(GO) build -ldflags '-s -w $(LDFLAGS)' -o $(CHECKED) ./cmd/holdfast
	@$(call IMAGETOOL,check) -binary $(CURDIR)/$(CHECKED) -out $(CURDIR)/.cache/image-check

image-lock: image-tools ## take the versions that Debian has now into deploy/image/packages.lock
	@$(call IMAGETOOL,lock)

deb: ## the Debian package, with systemd units: .cache/deb
	$(RELEASE)
	@rm -rf .cache/deb
	@$(call IMAGETOOL,deb) -binary $(CURDIR)/$(RELEASED) -out $(CURDIR)/.cache/deb

deb-check: image-tools deb ## install the Debian package into an empty Debian, twice, and remove it; needs root
	sh deploy/image/deb/install-check.sh $(CURDIR)/.cache/deb

# A real Kubernetes of its own, from modules. Its programs are built once, which takes an hour; KUBERNETES_CACHE= keeps them elsewhere.
KUBERNETES       ?= v1.37.2 v1.36.3
KUBERNETES_CACHE ?= $(CURDIR)/.cache/kubernetes
SNAPSHOTS         = $$(cd jepsen/kubernetes && $(GO) mod download -json github.com/kubernetes-csi/external-snapshotter/client/v8 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/config/crd
PROOF             = $(BIN)/kubernetes all -programs $(KUBERNETES_CACHE)/bin -image $(CURDIR)/.cache/image/holdfast.tar -crds "$(SNAPSHOTS)"
ON_THIN_POOLS     = ^(install|growth|attributes|snapshot|group-snapshot|replicated|failover|thin-pools)$$

kubernetes: deps build image ## the chart on a real Kubernetes, by stories with their times; builds Kubernetes first, once (KUBERNETES=v1.36.3: one version, STORIES=regexp: some stories, MINUTES=: of random kills, SUITE=regexp: some of Kubernetes' own tests, GUEST_NODES=: more nodes, with kernels of their own); volumes with replicas, and thin pools of LVM, on clusters of their own, whose nodes have kernels with DRBD
	@sh deploy/packages.sh kubernetes
	GO='$(GO)' sh jepsen/kubernetes/binaries.sh $(KUBERNETES_CACHE)
	cd jepsen/kubernetes && $(GO) build -ldflags '-s -w' -o $(KUBERNETES_CACHE)/bin/pause ./pause && $(GO) build -o $(CURDIR)/$(BIN)/kubernetes ./cmd/kubernetes
	$(SUBMAKE) kubernetes-test
	failed=; for version in $(KUBERNETES); do \
	  $(PROOF) -version $$version $(if $(STORIES),-only '$(STORIES)') $(if $(GUEST_NODES),-guests $(GUEST_NODES)) $(if $(MINUTES),-minutes $(MINUTES)) $(if $(SUITE),-suite-focus '$(SUITE)') || failed=1; \
	  $(if $(STORIES),,$(PROOF) -version $$version -guests 2 -only '^(install|replicated|failover|certify-replicated)$$' || failed=1; \
	  $(PROOF) -version $$version -guests 2 -thin-pools -only '$(ON_THIN_POOLS)' || failed=1;) done; test -z "$$failed"

# The programs of an API server, where make kubernetes has built them.
SERVERS  = $(wildcard $(KUBERNETES_CACHE)/bin/kube-apiserver-v*)

kubernetes-test: ## the tests of what make kubernetes runs, and, where it has built Kubernetes, those that take a real API server
	cd jepsen/kubernetes && $(GO) vet ./... && $(GO) test -vet=off -timeout 30m ./...
	@test -n "$(SERVERS)" || echo 'no API server in $(KUBERNETES_CACHE)/bin, which make kubernetes fills: what takes a real one is not tested here, and nor are the sidecars with it'
	$(if $(SERVERS),HOLDFAST_KUBERNETES_BIN=$(KUBERNETES_CACHE)/bin $(GO) test -vet=off -count=1 -timeout 30m ./kube/...)
	$(if $(SERVERS),cd docs/pagetest && HOLDFAST_KUBERNETES_BIN=$(KUBERNETES_CACHE)/bin HOLDFAST_BINARY=$(CURDIR)/$(BIN)/holdfast $(GO) test -vet=off -count=1 -timeout 30m -run Server .)

clean: ## remove what was built, and the cluster of make dev
	test ! -x $(BIN)/kubernetes || $(BIN)/kubernetes down
	test ! -d .cache/dev || $(GO) run ./cmd/holdfast dev clean --dir .cache/dev
	rm -rf $(BIN) .cache
