/* SPDX-License-Identifier: MIT */
/* The command line: every command is a file cmd_*.c with one vt_command; parsing, help and suggestions come from its
 * argument table. Only this room prints or exits. */
#pragma once

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/opt.h"
#include "base/columns.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/status.h"
#include "parallel/team.h"
#include "eval/args.h"
#include "models/model.h"

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
const vt_command *vt_command_find(const char *name); /* or NULL */
/* Reads the words after the command's name by the table of c->command, which is set: --name value, --name=value, -o
 * value, and operands; "--" ends the options. Fills given, row and positional. VT_E_USAGE or VT_E_UNKNOWN: an option or
 * operand that the command does not take, a missing value, too few operands. */
vt_status vt_cli_parse(vt_cli *c, int argc, char **argv, vt_err *e);

/* Returns the last value given for an option, or NULL. */
const char *vt_cli_get(const vt_cli *c, const char *name);
/* Was the flag or option given? */
bool vt_cli_has(const vt_cli *c, const char *name);
/* Returns value i = 0, 1, ... of a repeated option, or NULL. */
const char *vt_cli_nth(const vt_cli *c, const char *name, int i);
/* Adds an option after those given; false: the command has none of that name, or there are too many. */
bool vt_cli_set(vt_cli *c, const char *name, const char *value);

/* Reads an option as a whole number within [min, max]; `absent` if it is not given. VT_E_USAGE: it is none. */
vt_status vt_cli_int(const vt_cli *c, const char *name, long long min, long long max, long long absent, long long *out,
                     vt_err *e);

/* Reads --threads; by default vt_thread_count. */
vt_status vt_cli_threads(const vt_cli *c, long long *out, vt_err *e);

/* Reads --batch, the images that each thread attacks at a time and whose queries are one batch; 1 by default. */
vt_status vt_cli_batch(const vt_cli *c, int *out, vt_err *e);

/* Reads the options of VT_MODEL_ARGS. */
vt_status vt_cli_overrides(const vt_cli *c, vt_overrides *o, vt_err *e);
/* Opens the checkpoint of operand 0 with the options of VT_MODEL_ARGS, for long computations (vt_model_prepare). */
vt_status vt_cli_model(const vt_cli *c, vt_model **out, vt_err *e);

/* Appends a word as a shell takes it to the command line in out [size], a blank before it unless it is the first. */
void vt_cli_add_word(char *out, size_t size, const char *word);
/* "WEIGHTS --data D --norm N ...": the operand and the options of c that choose model, data and threat, but for the
 * threat's radius, as far as the command `to` takes them; quoted for a shell. */
void vt_cli_again(char *out, size_t size, const vt_cli *c, const vt_command *to);

/* Writes the path of this program's file; false: unknown. */
bool vt_cli_own_path(char out[VT_PATH_MAX]);

/* Returns a flag that SIGINT and SIGTERM set from here on; a second signal ends the program at once. */
const volatile sig_atomic_t *vt_cli_interruptible(void);
/* Sets the same flag after so many seconds, above 0. */
void vt_cli_alarm(double seconds);
/* Stops the clock. Returns whether it set the flag, and no user did; then clears it. */
bool vt_cli_time_is_up(void);
/* Lets SIGBUS end the command with "a mapped file was cut while it was read" and status 1. */
void vt_cli_guard_mapped(void);
/* Shows a line of progress on stderr (vt_progress_fn); live: the next line may overwrite it. */
void vt_cli_show(void *ctx, const char *text, bool live);
/* Returns a progress that is shown by vt_cli_show. */
vt_progress vt_cli_progress(void);
/* Returns how tables are shown: within the terminal's width, or with --verbose every column. */
vt_look vt_cli_look(const vt_cli *c);
#define VT_VERBOSE_ARG                                                                                                 \
    { "verbose", NULL, "every column of the tables, however wide", VT_OF_OUTPUT }

/* ---- what scripts rely on ---- */

#define VT_QUIET_ARG                                                                                                   \
    { "quiet", NULL, "print no table and no progress", VT_OF_OUTPUT }
#define VT_DRY_RUN_ARG                                                                                                 \
    { "dry-run", NULL, "print work, hours here and memory; run and write nothing", VT_OF_RUN }
#define VT_JSON_ARG                                                                                                    \
    { "json", NULL, "print one JSON document (docs/formats.md) and nothing else", VT_OF_OUTPUT }

/* After the command line is read: --json and --quiet drop what is printed to standard output. */
vt_status vt_script_begin(const vt_cli *c, vt_err *e);
/* Was --quiet given, so that no progress is shown? */
bool vt_script_quiet(void);
/* The stream of the one JSON document that --json prints; NULL: no document is asked for. */
FILE *vt_script_stream(void);
/* Prints the document o to that stream, if there is one, and frees it. VT_E_MEMORY: o is NULL or incomplete, and a
 * document is wanted. */
vt_status vt_script_print(json_t *o, vt_err *e);

/* ---- models ---- */

/* Before a command computes with a checkpoint: refuses a model of which something is open (checkpoint/provenance) in
 * one sentence with everything that is missing and the values it may have, the doctor's command line, which finds them,
 * and this one with the options to add; no value is put into it, since none is likelier than the others. What was
 * assumed is said on stderr. c NULL: the checkpoint takes no options here; the command at the end writes them into a
 * copy of it. */
vt_status vt_cli_known(const vt_cli *c, const vt_model *m, vt_err *e);
/* Prints on stderr which part of the file was read and what was assumed, if anything. */
void vt_cli_say_assumed(const vt_model *m);

/* Refuses an option that the command does not have (given without "--"; =VALUE may follow), with VT_E_UNKNOWN: names
 * what other tools call so, else the nearest option. */
vt_status vt_cli_unknown_option(const vt_command *c, const char *given, vt_err *e);
