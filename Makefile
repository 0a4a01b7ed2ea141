# The two commands of README are `make demo` and `make test`. Each installs what it needs; so do those of HDFS (docs/hdfs.md).

CARGO ?= cargo
# Absolute: some commands run elsewhere.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
MVN := mvn -B -q $(if $(HADOOP),-Dhadoop.version=$(HADOOP))
NEXTEST_VERSION := 0.9.151

.PHONY: demo test chaos cases lint bench build dist tools toolchain testbed hdfs-jar hdfs-classes hdfs-demo hdfs-test hdfs-fetch hdfs-schedules hdfs-patterns hdfs-measure hdfs-measure-encoding hdfs-measure-leave java

# Stores a real file on 16 node processes, archives it, loses a node, reads, repairs, recovers; prints a table.
# Another file: make demo FILE=/path/to/file
demo: toolchain
	$(CARGO) build --release --locked -p cli
	$(TARGET)/release/stripeline demo $(if $(FILE),--file "$(FILE)")

# All tests. A few need root (a small tmpfs, network namespaces) and say so where they cannot run. No Java.
test: toolchain tools
	-@[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory testbed
	$(CARGO) nextest run --workspace --locked --no-fail-fast
	$(CARGO) test --workspace --locked --doc --quiet

# Schedules of work and faults over processes, beyond the twenty-four that `make test` runs: SEEDS=17, SEEDS=1..1000, PLAN=file, and
# CHAOS for further options, such as CHAOS="--keep --verbose" (docs/chaos.md). Partitions and full disks need root.
chaos: toolchain
	$(CARGO) build --release --locked -p cli -p chaos
	$(TARGET)/release/stripeline-chaos $(if $(PLAN),--plan "$(PLAN)",--seeds "$(or $(SEEDS),1..30)") $(CHAOS)

# Every script in CASES (../shared/cases), each with the built program as its argument: fails if one does. They take minutes each.
CASES ?= ../shared/cases
cases: toolchain
	@[ -d "$(CASES)" ] || { echo "there are no cases: no folder $(CASES)"; exit 0; }; \
	$(if $(STRIPELINE),,$(CARGO) build --release --locked -p cli || exit 1;) \
	ran=0; failed=0; for case in "$(CASES)"/*.sh "$(CASES)"/*.py; do \
		[ -f "$$case" ] || continue; \
		case "$$case" in *.py) run=python3;; *) run=sh;; esac; \
		echo "$$case"; ran=$$((ran + 1)); \
		if $$run "$$case" "$(abspath $(or $(STRIPELINE),$(TARGET)/release/stripeline))"; then echo "  passed"; \
		else echo "  FAILED, exit $$?"; failed=$$((failed + 1)); fi; \
	done; echo "$$ran cases, $$failed of them failed"; [ $$failed = 0 ]

# The jar that an operator adds to Hadoop, tested without daemons: integrations/hdfs/target/stripeline-hdfs-*.jar
hdfs-jar: java
	cd integrations/hdfs && $(MVN) package

# What programs that run HDFS need: the tests' classes, and where Hadoop's are. `stripeline bench rp-10b` and `hdfs-ear` start one each.
hdfs-classes: hdfs-jar
	cd integrations/hdfs && $(MVN) dependency:build-classpath -Dmdep.includeScope=compile -Dmdep.outputFile=target/classpath

# Unmodified HDFS on the loopback (a NameNode, 16 DataNodes) with helpers loses a machine, and another one without a coordinator;
# all files are compared. Another version: make hdfs-demo HADOOP=3.4.2
hdfs-demo: toolchain hdfs-classes
	$(CARGO) build --release --locked -p cli
	cd integrations/hdfs && timeout 900 java -Xmx512m \
		-cp "target/test-classes:$$(echo target/stripeline-hdfs-*.jar):$$(cat target/classpath)" \
		stripeline.hdfs.cluster.Demo "$(TARGET)/release/stripeline" target/demo

# The same HDFS with 12 DataNodes and small blocks: which losses come back, and what happens when something else is away too.
# Two such clusters at a time: they wait more than they compute.
# With a program that was built before: make hdfs-test STRIPELINE=/path/to/stripeline
hdfs-test: toolchain java
	$(if $(STRIPELINE),,$(CARGO) build --release --locked -p cli)
	cd integrations/hdfs && timeout 900 $(MVN) test -Dexcluded= -Dgroups=cluster -Dforks=2 \
		"-Dstripeline=$(abspath $(or $(STRIPELINE),$(TARGET)/release/stripeline))"

# Fetches Hadoop and all else that the tests of HDFS need: fails where that cannot be had.
hdfs-fetch: java
	cd integrations/hdfs && timeout 600 $(MVN) dependency:resolve dependency:resolve-plugins

# Random losses with a random fault in the middle of each: SCHEDULES=50 SEED=1.
hdfs-schedules: toolchain java
	$(CARGO) build --release --locked -p cli
	cd integrations/hdfs && $(MVN) test -Dexcluded= -Dgroups=schedules "-Dstripeline=$(TARGET)/release/stripeline" \
		-Dschedules=$(or $(SCHEDULES),5) -Dseed=$(or $(SEED),1)

# All 129 patterns of up to three losses of RS-6-3, those of short groups, and some of RS-10-4: 252 groups in one cluster. SEED=1.
hdfs-patterns: toolchain java
	$(if $(STRIPELINE),,$(CARGO) build --release --locked -p cli)
	cd integrations/hdfs && timeout 900 $(MVN) test -Dexcluded= -Dgroups=patterns -Dseed=$(or $(SEED),1) \
		"-Dstripeline=$(abspath $(or $(STRIPELINE),$(TARGET)/release/stripeline))"

# How long a lost block takes over links of MBIT (200) each way, by HDFS alone and through helpers, in network namespaces; needs root.
hdfs-measure: toolchain testbed hdfs-classes
	$(CARGO) build --release --locked -p cli
	cd integrations/hdfs && timeout 1800 unshare --net java -Xmx4g \
		-cp "target/test-classes:$$(echo target/stripeline-hdfs-*.jar):$$(cat target/classpath)" \
		stripeline.hdfs.cluster.Measure "$(TARGET)/release/stripeline" target/measure $(or $(MBIT),200)

# How long it takes to make erasure-coded files of replicated ones, and how many bytes go between racks, placed by EAR, by HDFS's
# default, and copied as distcp does it; links of racks have MBIT (200) each way. In network namespaces; needs root.
hdfs-measure-encoding: toolchain testbed hdfs-jar
	$(if $(STRIPELINE),,$(CARGO) build --release --locked -p cli)
	cd integrations/hdfs && $(MVN) dependency:build-classpath -Dmdep.includeScope=compile -Dmdep.outputFile=target/classpath
	cd integrations/hdfs && timeout 1800 unshare --net java -Xmx1g \
		-cp "target/test-classes:$$(echo target/stripeline-hdfs-*.jar):$$(cat target/classpath)" \
		stripeline.hdfs.cluster.EncodeMeasure "$(abspath $(or $(STRIPELINE),$(TARGET)/release/stripeline))" target/measure-encoding $(or $(MBIT),200)

# How long a DataNode takes to be decommissioned, as HDFS does it, from all sources, and if it is ended instead, over links of MBIT
# (200) each way: POLICY=RS-6-3-1024k NODE_GROUPS=64, and WAYS="copied all" for some of them. In network namespaces; needs root.
hdfs-measure-leave: toolchain testbed hdfs-classes
	$(if $(STRIPELINE),,$(CARGO) build --release --locked -p cli)
	cd integrations/hdfs && timeout 1800 unshare --net java -Xmx1g \
		-cp "target/test-classes:$$(echo target/stripeline-hdfs-*.jar):$$(cat target/classpath)" \
		stripeline.hdfs.cluster.LeaveMeasure "$(abspath $(or $(STRIPELINE),$(TARGET)/release/stripeline))" target/measure-leave \
		$(or $(MBIT),200) $(or $(NODE_GROUPS),64) $(or $(POLICY),RS-6-3-1024k) $(WAYS)

lint: toolchain
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Kernels beside memcpy and XOR; planners of paths and of recoveries; a chain of helpers beside a bare one; every experiment in quick form, which needs root
# (rp-10b and hdfs-ear need Java and Hadoop too, and say so where they cannot be had).
# A full one, which replaces the record in results/: make dist, target/dist/stripeline bench ID, then stripeline bench report.
bench: dist testbed
	-@$(MAKE) --no-print-directory hdfs-classes
	$(CARGO) bench --locked -p gf
	$(CARGO) bench --locked -p plan
	$(CARGO) bench --locked -p flow
	$(CARGO) bench --locked -p coordinator
	$(CARGO) bench --locked -p node --bench chain
	$(TARGET)/dist/stripeline bench all --quick

# For people: built fast.
build: toolchain
	$(CARGO) build --release --locked

# For packages and experiments: optimized across crates, which takes several times as long.
dist: toolchain
	$(CARGO) build --profile dist --locked

java:
	@{ command -v mvn && command -v javac; } >/dev/null 2>&1 || { \
		apt-get update -q && apt-get install -y -q openjdk-17-jdk-headless maven; }

toolchain:
	@command -v cc >/dev/null 2>&1 || { apt-get update -q && apt-get install -y -q gcc libc6-dev; }
	@command -v $(CARGO) >/dev/null 2>&1 || { \
		apt-get update -q && apt-get install -y -q rustup && rustup default 1.95; } || { \
		echo "Rust 1.95 is needed and could not be installed here: see https://rustup.rs" >&2; exit 1; }

# Experiments run on network namespaces.
testbed:
	@command -v tc >/dev/null 2>&1 || { apt-get update -q && apt-get install -y -q iproute2; }

tools:
	@$(CARGO) nextest --version >/dev/null 2>&1 || \
		$(CARGO) install --locked --version $(NEXTEST_VERSION) cargo-nextest
