# SPDX-License-Identifier: MIT
# vitrine. `make` builds build/vitrine; `make help` lists the targets.
MODE ?= release
# make itself sets CC to cc, which a machine without a compiler lacks and which gcc's package alone does not promise
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin AR),default)
AR = $(shell $(CC) -print-prog-name=ar)
endif
# Tuned for this machine, unless the compiler (CC=aarch64-linux-gnu-gcc) builds for another. gcc 12 for aarch64 ends in an
# internal error where it vectorises a sum that a condition steers, so there it vectorises no loops (nn/lanes.h does).
TARGET := $(shell $(CC) -dumpmachine 2>/dev/null)-$(shell $(CC) -dumpversion 2>/dev/null)
# LEVEL=x86-64-v2, -v3 or -v4: for any processor of that level instead; the lowest runs the others that lie beside it
# (src/cli/early.c).
LEVEL ?=
LEVEL_BASE := x86-64-v2
LEVEL_FLAGS := $(if $(LEVEL),-DVT_LEVEL='"$(LEVEL)"' $(if $(filter $(LEVEL_BASE),$(LEVEL)),-DVT_LEVEL_BASE))
ifneq ($(LEVEL),)
ARCH := -march=$(LEVEL)
endif
ARCH ?= $(if $(filter $(shell uname -m)-%,$(TARGET)),-march=native) $(if $(filter aarch64-linux-gnu-12%,$(TARGET)),-fno-tree-loop-vectorize)
ARCH := $(ARCH)
V ?= 0
Q = $(if $(filter 1,$(V)),,@)

BUILD ?= build
OUT := $(BUILD)/$(MODE)
EXE := $(if $(filter release,$(MODE)),$(BUILD)/vitrine,$(OUT)/vitrine)
DRAW := $(dir $(EXE))tools/draw

# psabi: machines without 512-bit registers pass nn/lanes.h's vectors by another convention; they never cross files
WARN := -Wno-psabi -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef $(if $(CI),-Werror)
BASE := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -I$(OUT)/gen -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math -fopenmp -MMD -MP $(WARN)
OPT_release := -O3 -g1 $(ARCH)
OPT_debug := -O0 -g
OPT_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan := -O1 -g -fsanitize=thread
# clang's, which does not define the name that tells that the address sanitizer is there; sizes that are refused begin
# at 2^16, so that no input takes its time for being large
OPT_fuzz := -O1 -g $(ARCH) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -D__SANITIZE_ADDRESS__ -DVT_GRAPH_BITS=16
# with coverage and sanitizers, clang's optimiser takes over ten minutes for the kernels of this file
$(BUILD)/fuzz/linalg/small_avx512.o: override CFLAGS += -O0
OPT_tests_release := -O2 # a test's own code is short of work: compiling it took longer than running it
LINK_asan := -fsanitize=address,undefined
LINK_tsan := -fsanitize=thread
LINK_fuzz := $(LINK_asan)
# nothing of the folder it was built in stays in the binary
override CFLAGS += -ffile-prefix-map=$(CURDIR)=. $(LEVEL_FLAGS) $(BASE) $(OPT_$(MODE))
override LDLIBS += -lopenblas -ldnnl -ljansson -lpng -ljpeg -lcrypto -lyaml -lzip -lz -lm
override LDFLAGS += -fopenmp $(LINK_$(MODE))

# Rooms. The numeric files are compiled twice, float and double: nn and models/net whole, what of train computes by its name.
TWICE := $(wildcard src/nn/*.c src/graph/op*.c src/graph/run.c src/spec/evaluator.c src/models/net/*.c $(addprefix src/train/,objective*.c optim*.c penalty*.c))
ONCE := $(filter-out $(TWICE),$(foreach room,base linalg parallel tensors data graph certify models checkpoint spec inference remote attacks eval selftest train api,$(wildcard src/$(room)/*.c src/$(room)/*/*.c)))
# What the product stands on without: labs, analyses, tables. A second archive, for the command alone.
RESEARCH_TWICE := src/research/lab/two_layer.c
RESEARCH_CLI := $(wildcard src/research/cli/*.c)
RESEARCH_ONCE := $(filter-out $(RESEARCH_TWICE) $(RESEARCH_CLI),$(wildcard src/research/*/*.c))
CLI := $(wildcard src/cli/*.c) $(RESEARCH_CLI)
obj = $(patsubst src/%.c,$(OUT)/%$(2).o,$(1))
LIB_OBJ := $(call obj,$(ONCE),) $(call obj,$(TWICE),.f32) $(call obj,$(TWICE),.f64)
RESEARCH_OBJ := $(call obj,$(RESEARCH_ONCE),) $(call obj,$(RESEARCH_TWICE),.f32) $(call obj,$(RESEARCH_TWICE),.f64)
CLI_OBJ := $(call obj,$(CLI),)
LIB := $(OUT)/libvitrine.a
RESEARCH := $(OUT)/libvitrine-research.a

all: $(EXE) $(DRAW) $(if $(filter 1,$(MPI)),mpi) ## build build/vitrine (default), with MPI=1 build/vitrine-mpi too
deps-check:
	@CC='$(CC)' tools/deps.sh build

# Registries: one X-macro line for each plug-in file, rewritten only when the list changes.
# gen/attacks.inc from src/attacks/attack_*.c, and so on; nobody keeps a list by hand.
plug = $(patsubst $(1)%$(or $(2),.c),%,$(wildcard $(1)*$(or $(2),.c)))
define REGISTRY
$(OUT)/gen/$(1).inc: FORCE
	@mkdir -p $$(@D)
	@{ for x in $(sort $(call plug,$(2)) $(if $(3),$(call plug,$(3)))); do echo "VT_PLUGIN($$$$x)"; done; } >$$@.new; cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
GEN += $(OUT)/gen/$(1).inc
endef
$(eval $(call REGISTRY,ops,src/graph/op_))
$(eval $(call REGISTRY,attacks,src/attacks/attack_))
$(eval $(call REGISTRY,attns,src/models/net/attn_))
$(eval $(call REGISTRY,archs,src/models/arch_))
$(eval $(call REGISTRY,nets,src/models/net/net_))
$(eval $(call REGISTRY,puts,src/models/export/put_))
$(eval $(call REGISTRY,wraps,src/inference/wrap_))
$(eval $(call REGISTRY,datasets,src/data/dataset_))
$(eval $(call REGISTRY,certifiers,src/eval/certify_))
$(eval $(call REGISTRY,reports,src/eval/report/report_))
$(eval $(call REGISTRY,objectives,src/train/objective_))
$(eval $(call REGISTRY,optims,src/train/optim_))
$(eval $(call REGISTRY,penalties,src/train/penalty_))
$(eval $(call REGISTRY,labs,src/research/lab/lab_))
$(eval $(call REGISTRY,analyses,src/research/analysis/analyze_))
$(eval $(call REGISTRY,commands,src/cli/cmd_,src/research/cli/cmd_))
# Maps of names (checkpoint/names.h), each a row {"X", "its lines"}.
$(OUT)/gen/maps.inc: FORCE
	@mkdir -p $(@D)
	@{ for x in $(call plug,maps/,.map); do echo "{\"$$x\","; sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' maps/$$x.map; echo '},'; done; } >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
GEN += $(OUT)/gen/maps.inc
# Maps of libraries' names (checkpoint/names_known.c), each a text map_X.
$(OUT)/gen/known.inc: FORCE
	@mkdir -p $(@D)
	@{ for x in $(call plug,maps/known/,.map); do echo "static const char map_$$x[] =" | tr - _; sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' maps/known/$$x.map; echo ';'; done; } >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
GEN += $(OUT)/gen/known.inc
# Networks that are named, not read (checkpoint/names_known.c), each a row {"pattern", "pattern", "what"}.
$(OUT)/gen/networks.inc: maps/networks.txt
	@mkdir -p $(@D); sed '/^\(#\|$$\)/d; s/[\\"]/\\&/g; s/^\([^ ]*\) *\([^ ]*\) *\(.*\)/{"\1", "\2", "\3"},/' $< >$@
GEN += $(OUT)/gen/networks.inc
# ImageNet's class identifiers, each a string.
$(OUT)/gen/wnids.inc: src/data/wnids.txt
	@mkdir -p $(@D); sed '/^#/d; s/n[0-9]*/"&",/g' $< >$@
GEN += $(OUT)/gen/wnids.inc
# The style of the pages, a string for each line; comments and indents stay here.
$(OUT)/gen/page.inc: src/eval/report/page.css
	@mkdir -p $(@D); sed 's/^ *//; /^\/\*.*\*\/$$/d; /^\/\*/,/\*\/$$/d; /^$$/d; s/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@
GEN += $(OUT)/gen/page.inc
# The shells' completions, each a row {"bash", "its lines"}.
$(OUT)/gen/completion.inc: $(wildcard src/cli/completion.*)
	@mkdir -p $(@D); for x in $^; do echo "{\"$${x##*.}\","; sed '/^# SPDX/d; s/[\\"]/\\&/g; s/.*/"&\\n"/' $$x; echo '},'; done >$@
GEN += $(OUT)/gen/completion.inc
FORCE:

# A changed compiler, mode or flag rebuilds everything.
$(OUT)/flags: FORCE | deps-check
	@mkdir -p $(@D); echo '$(subst $(CURDIR),.,$(CC) $(CFLAGS) $(LDFLAGS) $(LDLIBS))' >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# The numeric files contract a*b+c to one fused operation; everything that judges (ball, verify) does not.
$(OUT)/%.f32.o: src/%.c $(OUT)/flags | $(GEN)
	@mkdir -p $(@D); echo "  CC   $< (float)"
	$(Q)$(CC) $(CFLAGS) -ffp-contract=fast -c $< -o $@
$(OUT)/%.f64.o: src/%.c $(OUT)/flags | $(GEN)
	@mkdir -p $(@D); echo "  CC   $< (double)"
	$(Q)$(CC) $(CFLAGS) -ffp-contract=fast -DVT_DOUBLE -c $< -o $@
$(OUT)/%.o: src/%.c $(OUT)/flags | $(GEN)
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) -ffp-contract=off -c $< -o $@
$(LIB): $(LIB_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
$(RESEARCH): $(RESEARCH_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
# What other programs link: the same objects, of which include/vitrine.h names what can be seen.
SO := $(OUT)/libvitrine.so.0
$(SO): $(LIB) tools/vitrine.map
	@echo "  LINK $@"
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,libvitrine.so.0 -Wl,--version-script=tools/vitrine.map -Wl,--no-undefined -o $@ $(LIB_OBJ) $(LDLIBS)
shared: $(SO) ## build libvitrine.so.0 (docs/library.md)
$(EXE): $(CLI_OBJ) $(RESEARCH) $(LIB)
	@mkdir -p $(@D); echo "  LINK $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(RESEARCH) $(LIB) $(LDLIBS)
# Drawn images like datasets/shapes10: a tool beside the command, whose drawing unit tests link too.
DRAW_OBJ := $(OUT)/tools/draw.o
$(OUT)/tools/%.o: tools/%.c $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) -I. -ffp-contract=off -c $< -o $@
$(DRAW): $(OUT)/tools/draw_main.o $(DRAW_OBJ) $(LIB)
	@mkdir -p $(@D); echo "  LINK $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# Runs ONNX's own cases through src/graph (tools/onnx_conformance.sh), and prints the table of operators.
ONNX_CASE := $(dir $(EXE))tools/onnx_case
$(ONNX_CASE): $(OUT)/tools/onnx_case.o $(OUT)/tools/onnx_case_f64.o $(LIB)
	@mkdir -p $(@D); echo "  LINK $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
onnx-case: $(ONNX_CASE)
operators: $(ONNX_CASE) ## rewrites the list of ONNX operators in docs/models.md
	@tools/onnx_operators.py $(ONNX_CASE)
# MPI=1: a second program, vitrine-mpi, whose ranks do one evaluation, training or table together (docs/cluster.md). All
# that knows MPI is src/mpi, which the first program is linked without.
MPICC ?= mpicc
MPI ?= $(if $(filter test all-parts cli part-cli_ranks,$(MAKECMDGOALS)),$(shell command -v $(MPICC) >/dev/null && echo 1))
MPI_EXE := $(EXE)-mpi
MPI_OBJ := $(call obj,$(wildcard src/mpi/*.c),)
$(MPI_OBJ): $(OUT)/%.o: src/%.c $(OUT)/flags | mpi-check
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) $(CFLAGS) -c $< -o $@
$(MPI_EXE): $(filter-out $(OUT)/cli/ranks.o,$(CLI_OBJ)) $(MPI_OBJ) $(RESEARCH) $(LIB)
	@echo "  LINK $@"
	$(Q)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(RESEARCH) $(LIB) $(LDLIBS)
mpi-check:
	@command -v $(MPICC) >/dev/null || { echo "$(MPICC) is not here: apt-get install libopenmpi-dev openmpi-bin" >&2; exit 1; }
mpi: $(MPI_EXE)

# ---- tests ----
# Unit tests: every tests/unit/ROOM/test_X.c is a program (cmocka), tests/test_X, run from the root of the repository.
vpath test_%.c $(wildcard tests/unit/*/)
UNIT := $(patsubst %.c,$(OUT)/tests/%,$(notdir $(wildcard tests/unit/*/test_*.c)))
# Processor seconds of parts that took half a second or more when they were last recorded (`make times`), the longest first:
# the others are quick, and these go first, so that none is left alone at the end.
RECORDED := $(shell sed 's/ .*//; /^\#/d' tests/times.txt)
QUICK := $(filter-out $(addprefix $(OUT)/tests/,$(RECORDED)),$(UNIT))
GOLDEN := $(patsubst tests/golden/%.c,$(OUT)/tests/%,$(wildcard tests/golden/test_*.c))
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,$(OUT)/tests/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
# Tests of research link it too; all others link the product alone, which so proves that it needs no research.
$(patsubst %.c,$(OUT)/tests/%,$(notdir $(shell grep -l '^#include "research/' tests/unit/*/*.c))): $(RESEARCH)
$(patsubst tests/golden/%.c,$(OUT)/tests/%,$(shell grep -l '^#include "research/' tests/golden/*.c)): $(RESEARCH)
FUZZ_OF_RESEARCH := $(shell grep -l '^#include "research/' tests/fuzz/*.c)
$(foreach kind,replay guided,$(patsubst tests/fuzz/fuzz_%.c,$(OUT)/tests/$(kind)_%,$(FUZZ_OF_RESEARCH))): $(RESEARCH)
$(OUT)/tests/test_plot_training: $(OUT)/cli/plot_training.o
$(OUT)/tests/replay_misc $(OUT)/tests/guided_misc: $(OUT)/cli/plot_training.o
# The whole command, whose main steps behind the test's.
$(OUT)/tests/test_scarce_commands: $(CLI_OBJ) $(RESEARCH)
$(OUT)/tests/test_scarce_commands: private override LDFLAGS += -Wl,--wrap=main
$(OUT)/tests/test_flops: private override LDFLAGS += -Wl,--wrap=vt_gemm_f64
$(OUT)/tests/test_%: test_%.c $(DRAW_OBJ) $(LIB) $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) $(OPT_tests_$(MODE)) -I. -Itests/unit $(LDFLAGS) -MF $@.d -o $@ $< $(filter %.o,$^) $(filter $(RESEARCH),$^) $(LIB) -lcmocka $(LDLIBS)
$(OUT)/tests/%: tests/golden/%.c $(LIB) $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) $(OPT_tests_$(MODE)) -Itests/unit -Itests/golden $(LDFLAGS) -MF $@.d -o $@ $< $(filter $(RESEARCH),$^) $(LIB) -lcmocka $(LDLIBS)
$(OUT)/tests/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay_main.c $(LIB) $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) $(OPT_tests_$(MODE)) $(LDFLAGS) -MF $@.d -o $@ $< tests/fuzz/replay_main.c $(filter %.o $(RESEARCH),$^) $(LIB) $(LDLIBS)
$(OUT)/tests/guided_%: tests/fuzz/fuzz_%.c $(LIB) $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -MF $@.d -o $@ $< $(filter %.o $(RESEARCH),$^) $(LIB) $(LDLIBS)
# Each program, corpus and file of command-line tests is a part: parts run beside each other, as many as there are
# processors (or as make's own -j says), all of them even when one fails, and a table tells what each took.
JOBS ?= $(shell nproc)
parallel = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
define RUN
@rm -rf $(OUT)/parts/$@
+@$(MAKE) --no-print-directory -k $(parallel) PARTS=$(OUT)/parts/$@ $(addprefix part-,$(notdir $(1))); status=$$?; \
[ ! -d $(OUT)/parts/$@ ] || tests/part.sh --table $(OUT)/parts/$@ && exit $$status
endef
CLI_PARTS := $(patsubst tests/cli/%.bats,cli_%,$(wildcard tests/cli/*.bats))
CLI_PARTS := $(filter $(CLI_PARTS),$(RECORDED)) $(filter-out $(RECORDED),$(CLI_PARTS))
part-test_%:
	@tests/part.sh $(PARTS) test_$* $(EMULATE) $(OUT)/tests/test_$*
part-test_golden_%:
	@tests/part.sh $(PARTS) test_golden_$* $(OUT)/tests/test_golden_$* $(SHARED)
part-replay_%:
	@tests/part.sh $(PARTS) replay_$* $(EMULATE) $(OUT)/tests/replay_$* -mutate $(N) -seed 1 tests/fuzz/corpus/$*
part-cli_%:
	@VITRINE=$(abspath $(EXE)) tests/part.sh $(PARTS) cli_$* bats tests/cli/$*.bats
part-lint:
	@tests/part.sh $(PARTS) lint $(MAKE) lint

# Tests that start threads, and the command under several of them.
THREADED := $(patsubst %,$(OUT)/tests/test_%,analyze_features analyze_weights doctor gemm batcher lab_data not_finite prove verify_run selftest training xcit)
part-races:
	@VITRINE=$(abspath $(EXE)) tests/part.sh $(PARTS) races tests/races.sh
races: export TSAN_OPTIONS := suppressions=$(abspath tests/tsan.supp) halt_on_error=0 exitcode=66
races: $(EXE) $(DRAW) $(THREADED)
	$(call RUN,races $(THREADED))
tsan: ## data races of the library's threads, by the thread sanitizer
	@$(MAKE) --no-print-directory $(parallel) races MODE=tsan

unit: $(UNIT) ## unit tests
	$(call RUN,$(UNIT))
fuzz-replay: $(FUZZ) ## every fuzz target on its corpus and on N damaged copies (N=3000)
	$(call RUN,$(FUZZ))
fuzz-guided: ## one fuzz target (TARGET=hello) under libFuzzer, RUNS inputs (10^7) or SECONDS (an hour); needs clang
	@TARGET='$(TARGET)' RUNS='$(RUNS)' SECONDS='$(SECONDS)' BUILD='$(BUILD)' MAKE='$(MAKE)' tests/fuzz/guided.sh
cli: $(EXE) $(SO) $(DRAW) $(ONNX_CASE) $(if $(filter 1,$(MPI)),mpi) ## tests of the command line (bats)
	$(call RUN,$(CLI_PARTS))
all-parts: $(EXE) $(SO) $(DRAW) $(ONNX_CASE) $(if $(filter 1,$(MPI)),mpi) $(UNIT) $(FUZZ)
	$(call RUN,$(CLI_PARTS) $(filter-out $(QUICK),$(UNIT)) $(FUZZ) $(QUICK) lint)
cross: ## unit tests for aarch64, run under qemu
	@CC=aarch64-linux-gnu-gcc tools/deps.sh --install test
	@$(MAKE) --no-print-directory $(parallel) unit CC=aarch64-linux-gnu-gcc BUILD=$(BUILD)/aarch64 EMULATE=qemu-aarch64
lint: $(LIB) ## house rules that the compiler does not check
	tests/lint.sh
	tests/lint.sh --archive $(LIB)
	@tests/lint.sh --self-test | { ! grep -v '^finds'; }
rooms: ## rewrites the list of folders in docs/ARCHITECTURE.md
	@tools/rooms.py
ONE := $(if $(wildcard tests/unit/*/test_$(T).c tests/golden/test_$(T).c),$(OUT)/tests/test_$(T))
t: $(ONE) $(EXE) $(SO) $(DRAW) $(ONNX_CASE) ## one test by its name, in all rooms: make t T=oracle
	@[ -n '$(ONE)' ] || [ -f 'tests/cli/$(T).bats' ] || { echo "no test is called '$(T)' (tests/unit/*/test_$(T).c, tests/cli/$(T).bats)"; exit 1; }
	$(if $(ONE),$(ONE) $(if $(filter golden%,$(T)),$(SHARED)))
	@[ ! -f 'tests/cli/$(T).bats' ] || VITRINE=$(abspath $(EXE)) bats 'tests/cli/$(T).bats'
times: ## writes what the last `make test` took to tests/times.txt
	tests/part.sh --record $(OUT)/parts/all-parts >tests/times.new && mv tests/times.new tests/times.txt
unit-quick: $(QUICK)
	$(call RUN,$(QUICK))
golden-quick: $(filter-out %_slow,$(GOLDEN))
	$(call RUN,$(filter-out %_slow,$(GOLDEN)))
golden: $(GOLDEN) ## against the reference files in SHARED (../shared), minutes
	$(call RUN,$(GOLDEN))
mutants: deps-test ## plants bugs one by one; fails if the unit tests miss one
	tests/mutants/run.sh
quick: deps-test ## under 20 s: lint and the fast unit tests
	@$(MAKE) --no-print-directory $(parallel) lint unit-quick
test: deps-test ## all tests that need nothing but this repository
	@$(MAKE) --no-print-directory $(parallel) all-parts
	@echo "all tests passed (MODE=$(MODE))"
N ?= 3000
RUNS ?= 10000000
SECONDS ?= 3600
SHARED ?= ../shared
# releases of clang-format lay out some lines otherwise: one of them (Debian 12's) is the house's
CLANG_FORMAT ?= $(or $(shell command -v clang-format-14),clang-format)
format: FORMAT := -i ## clang-format over the C sources
format-check: FORMAT := --dry-run -Werror
format format-check:
	@case "$$($(CLANG_FORMAT) --version 2>/dev/null)" in \
	*' 14.'*) $(CLANG_FORMAT) $(FORMAT) $$(git ls-files '*.c' '*.h') ;; \
	*) echo "$@: nothing done, clang-format 14 is not here (CLANG_FORMAT=PROGRAM names one)"; [ $@ = format-check ] ;; esac

# ---- first steps ----
deps-build:
	@CC='$(CC)' tools/deps.sh --install build
deps-test:
	@CC='$(CC)' tools/deps.sh --install test
deps-python:
	@CC='$(CC)' tools/deps.sh --install python
demo: deps-build ## build, evaluate the embedded pair (plain, SpecFormer) on the embedded images, compare them
	@$(MAKE) --no-print-directory $(parallel) all
	@rm -rf $(BUILD)/demo
	$(EXE) eval weights/shapes10-plain/model.safetensors --data datasets/shapes10 $(DEMO) --out $(BUILD)/demo/plain
	$(EXE) eval weights/shapes10-specformer/model.safetensors --data datasets/shapes10 $(DEMO) --out $(BUILD)/demo/specformer
	$(EXE) compare $(BUILD)/demo/plain $(BUILD)/demo/specformer
	@echo "(the gain is that of adversarial training: no pair of checkpoints here shows MSVP alone)"
	@echo; echo "the same as a page, with the broken images:"; $(EXE) show $(BUILD)/demo/specformer $(BUILD)/demo/plain
DEMO ?= --images 0:100 --eps 4/255 --attack fgsm --attack pgd --attack cw20 --attack autoattack

# PREFIX is where it will be, DESTDIR a folder below which it is put for a package. Tuned for this machine (ARCH above).
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
PRIVATE = $(filter-out -L%,$(LDLIBS)) -fopenmp
INSTALL = tools/install.sh --library $(OUT) --libdir '$(LIBDIR)' --private '$(PRIVATE)' $(if $(filter 1,$(MPI)),--mpi $(MPI_EXE))
install: $(EXE) $(SO) $(if $(filter 1,$(MPI)),mpi) ## command, manual pages, completions, recipes, library (PREFIX=/usr/local, LIBDIR, DESTDIR)
	@$(INSTALL) $(EXE) '$(PREFIX)' '$(DESTDIR)'
# A wheel: as debian/rules does, the same sources for any x86-64 processor and for each better level; elsewhere one build.
WHEEL_LEVELS := $(if $(filter x86_64-%,$(TARGET)),x86-64-v2 x86-64-v3 x86-64-v4,any)
wheel: deps-build deps-python ## build/wheel/vitrine-*.whl for pip: Python package, library, command (docs/python.md)
	@$(foreach l,$(WHEEL_LEVELS),$(MAKE) --no-print-directory $(parallel) $(if $(filter any,$(l)),ARCH=,LEVEL=$(l)) BUILD=$(BUILD)/wheel/$(l) all shared &&) true
	@rm -f $(BUILD)/wheel/*.whl
	@tools/wheel.py $(BUILD)/wheel $(BUILD)/wheel/$(firstword $(WHEEL_LEVELS)) $(foreach l,$(wordlist 2,9,$(WHEEL_LEVELS)),$(l)=$(BUILD)/wheel/$(l))
private-libs: # what whoever links libvitrine.a links too
	@echo '$(PRIVATE)'
uninstall: $(EXE) ## removes what install has put there
	@$(INSTALL) --remove $(EXE) '$(PREFIX)' '$(DESTDIR)'

clean: ## remove build/
	rm -rf $(BUILD)
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20
.PHONY: mpi onnx-case operators mpi-check all all-parts deps-check races tsan unit fuzz-replay fuzz-guided cli lint rooms unit-quick golden-quick golden mutants quick t times test format format-check deps-build deps-test deps-python demo install wheel uninstall private-libs clean cross shared help FORCE
.DEFAULT_GOAL := all
-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
