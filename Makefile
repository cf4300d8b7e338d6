# vitrine. `make` builds build/vitrine; `make help` lists the targets.
MODE ?= release
CC ?= gcc
ARCH ?= -march=native
V ?= 0
Q = $(if $(filter 1,$(V)),,@)

BUILD ?= build
OUT := $(BUILD)/$(MODE)
EXE := $(if $(filter release,$(MODE)),$(BUILD)/vitrine,$(OUT)/vitrine)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef $(if $(CI),-Werror)
BASE := -std=c11 -D_GNU_SOURCE -Isrc -I$(OUT)/gen -fno-math-errno -fno-trapping-math -fopenmp -MMD -MP $(WARN)
OPT_release := -O3 -g1 $(ARCH)
OPT_debug := -O0 -g
OPT_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LINK_asan := -fsanitize=address,undefined
override CFLAGS += $(BASE) $(OPT_$(MODE))
override LDLIBS += -lopenblas -ldnnl -ljansson -lpng -lcrypto -lm
override LDFLAGS += -fopenmp $(LINK_$(MODE))

# Rooms. The numeric files (nn, and what of models computes) are compiled twice, float and double.
TWICE := $(wildcard src/nn/*.c) $(wildcard src/models/arch_*.c src/models/attn_*.c) src/models/session.c src/models/block.c src/models/attention.c
ONCE := $(filter-out $(TWICE),$(wildcard src/core/*.c src/io/*.c src/models/*.c src/attacks/*.c src/eval/*.c))
CLI := $(wildcard src/cli/*.c)
obj = $(patsubst src/%.c,$(OUT)/%$(2).o,$(1))
LIB_OBJ := $(call obj,$(ONCE),) $(call obj,$(TWICE),.f32) $(call obj,$(TWICE),.f64)
CLI_OBJ := $(call obj,$(CLI),)
LIB := $(OUT)/libvitrine.a

all: $(EXE) ## build build/vitrine (default)

# Registries: one X-macro line for each plug-in file, rewritten only when the list changes.
# gen/attacks.inc from src/attacks/attack_*.c, and so on; nobody keeps a list by hand.
plug = $(patsubst $(1)%.c,%,$(wildcard $(1)*.c))
define REGISTRY
$(OUT)/gen/$(1).inc: FORCE
	@mkdir -p $$(@D)
	@printf 'VT_PLUGIN(%s)\n' $(call plug,$(2)) >$$@.new; cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
GEN += $(OUT)/gen/$(1).inc
endef
$(eval $(call REGISTRY,attacks,src/attacks/attack_))
$(eval $(call REGISTRY,attns,src/models/attn_))
$(eval $(call REGISTRY,archs,src/models/arch_))
$(eval $(call REGISTRY,names,src/models/names_))
$(eval $(call REGISTRY,datasets,src/io/dataset_))
$(eval $(call REGISTRY,reports,src/eval/report_))
$(eval $(call REGISTRY,commands,src/cli/cmd_))
FORCE:

# A changed compiler, mode or flag rebuilds everything.
$(OUT)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(CFLAGS) $(LDFLAGS) $(LDLIBS)' >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

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
$(EXE): $(CLI_OBJ) $(LIB)
	@mkdir -p $(@D); echo "  LINK $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(LIB) $(LDLIBS)

# Unit tests: every tests/unit/test_X.c is a program (cmocka), run from the root of the repository.
UNIT := $(patsubst tests/unit/%.c,$(OUT)/tests/%,$(wildcard tests/unit/test_*.c))
$(OUT)/tests/%: tests/unit/%.c $(LIB) $(OUT)/flags
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(CC) $(CFLAGS) -Itests/unit $(LDFLAGS) -MF $@.d -o $@ $< $(LIB) -lcmocka $(LDLIBS)
unit: $(UNIT) ## build and run the unit tests
	@status=0; for t in $(UNIT); do echo "== $$t"; $$t || status=1; done; exit $$status

clean: ## remove build/
	rm -rf $(BUILD)
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20
.PHONY: all unit clean help FORCE
.DEFAULT_GOAL := all
-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
