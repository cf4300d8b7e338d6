/* SPDX-License-Identifier: MIT */
/* The command line: every command is a file cmd_*.c with one vt_command; parsing, help and suggestions come from its
 * argument table. Only this room prints or exits. */
#ifndef VT_CLI_CLI_H
#define VT_CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/choices.h"
#include "core/columns.h"
#include "core/status.h"
#include "core/team.h"
#include "models/model.h"

typedef struct vt_arg {
    const char *name;    /* long option without dashes ("eps"), one letter for a short one ("o") */
    const char *metavar; /* value shown in help; NULL: a flag */
    const char *help;    /* one line, with the default */
} vt_arg;

typedef struct vt_cli {
    const struct vt_command *command;
    const char *positional[16]; /* up to 16, in order */
    int n_positional;
    vt_choices given;
    const vt_arg *row[VT_CHOICES_MOST]; /* of each, in the command's table */
    vt_arg more[64];                    /* options that the command's `find` added, and how many */
    int n_more;
    int argc; /* the whole command line, for run.json */
    char **argv;
    vt_team *team; /* the ranks that run this command together (cli/ranks.h); NULL: this process alone */
} vt_cli;

typedef struct vt_command {
    const char *name, *summary;
    const char *operands; /* "WEIGHTS" in the usage line */
    int min_operands, max_operands;
    const vt_arg *args;      /* ends at name NULL */
    const char *details;     /* paragraphs after the options, or NULL */
    const char *examples[8]; /* commands that run as they stand from the repository's root, one after the other */
    vt_status (*run)(const vt_cli *c, vt_err *e);
    bool ranks; /* several processes can run it together (docs/cluster.md) */
    /* Options that depend on the operands before them (a lab's own): describes --name in *out, whose texts outlive the
     * command, or refuses it with a sentence. NULL: what args lists is all there is. */
    vt_status (*find)(const vt_cli *c, const char *name, vt_arg *out, vt_err *e);
} vt_command;

const vt_command *const *vt_commands(int *n);
/* The words after the command's name, by its table: c->command is set, given and positional are filled. */
vt_status vt_cli_parse(vt_cli *c, int argc, char **argv, vt_err *e);

/* Last value given for an option, or NULL; whether a flag or option was given; the i-th value of a repeated one. */
const char *vt_cli_get(const vt_cli *c, const char *name);
bool vt_cli_has(const vt_cli *c, const char *name);
const char *vt_cli_nth(const vt_cli *c, const char *name, int i);
/* One more option behind those given; false: the command has none of that name, or there are too many. */
bool vt_cli_set(vt_cli *c, const char *name, const char *value);

/* Value of an option as a number within [min, max], or the default when absent. */
vt_status vt_cli_int(const vt_cli *c, const char *name, long long min, long long max, long long absent, long long *out,
                     vt_err *e);

/* --threads, or what vt_thread_count says. */
vt_status vt_cli_threads(const vt_cli *c, long long *out, vt_err *e);
#define VT_THREADS_ARG                                                                                                 \
    { "threads", "N", "threads (default OMP_NUM_THREADS, else all cores given); never changes a result" }

/* --batch: images that each thread attacks at a time, whose questions to the model are one batch. */
vt_status vt_cli_batch(const vt_cli *c, int *out, vt_err *e);
#define VT_BATCH_ARG                                                                                                   \
    { "batch", "N", "images of each thread that wait for the model together (default 1)" }

#define VT_SEARCH_ARG                                                                                                  \
    {                                                                                                                  \
        "search", "float32|auto|bf16|bf16-emulated",                                                                   \
            "products that attacks search on (default float32); verdicts stay float32 and double (docs/speed.md)"      \
    }

/* The options by which a user tells what tensors cannot; rows for a command's table, and their reading. */
#define VT_MODEL_ARGS                                                                                                  \
    {"heads", "N", "number of attention heads"}, {"image-size", "N", "side of the input, where tensors do not tell"},  \
        {"mean", "A,B,C", "mean of the input normalisation"},                                                          \
        {"std", "A,B,C", "standard deviation of the input normalisation"}, {"ln-eps", "X", "LayerNorm epsilon"},       \
        {"attn-scale", "head|dim|X", "factor on Q K^T"},                                                               \
        {"preset", "NAME", "take heads, eps, mean and std from a preset"}, {"attn", "NAME", "attention variant"},      \
        {"form", "K=V ...", "norm, act, post_norm, pool, ... (vitrine list models); repeatable"},                      \
        {"names", "MAP", "map file for the tensors' names, or a scheme of vitrine list formats"}, {                    \
        "part", "NAME", "which state dict of a .pth file that holds several: ema, model.generator"                     \
    }
vt_status vt_cli_overrides(const vt_cli *c, vt_overrides *o, vt_err *e);
/* Opens operand 0 with them, for long computations (vt_model_prepare). */
vt_status vt_cli_model(const vt_cli *c, vt_model **out, vt_err *e);

/* From here on SIGINT and SIGTERM set the flag that is returned; a second one ends the program at once. */
const volatile sig_atomic_t *vt_cli_interruptible(void);
/* A mapped file that is cut while it is read ends the command with "FILE: was cut while it was read" and status 1. */
void vt_cli_guard_mapped(void);
/* A line of progress on stderr, for vt_progress_fn; live: the next line may overwrite it. */
void vt_cli_show(void *ctx, const char *text, bool live);
/* How tables are shown: within the terminal's width, unless --verbose wants every column. */
vt_look vt_cli_look(const vt_cli *c);
#define VT_VERBOSE_ARG                                                                                                 \
    { "verbose", NULL, "every column of the tables, however wide" }

#endif
