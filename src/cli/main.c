/* SPDX-License-Identifier: MIT */
/* vitrine: dispatch table, argument parsing, help. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/ranks.h"
#include "cli/streams.h"
#include "linalg/gemm.h"
#include "base/opt.h"
#include "base/version.h"
#include "train/recipe.h"

#define VT_KIND vt_command
#define VT_KIND_NAME(x) vt_command_##x
#define VT_KIND_LIST "commands.inc"
#include "base/registry.inc"

const vt_command *const *vt_commands(int *n) {
    *n = COUNT;
    return defs;
}

const vt_command *vt_command_find(const char *name) { return named(name); }

/* Refuses an unknown command, with the nearest name. */
static vt_status fail_unknown_command(const char *name, vt_err *e) {
    const char *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    return vt_fail_unknown("command", name, names, COUNT, "vitrine help", e);
}

/* Returns the row of the option `name` [len], in any case, or NULL. */
static const vt_arg *find_arg(const vt_command *c, const char *name, size_t len) {
    for (const vt_arg *a = c->args; a && a->name; a++)
        if (strlen(a->name) == len && !strncasecmp(a->name, name, len)) return a;
    return NULL;
}

/* Finds an option that only the command itself knows (its `find`); the row is kept in c->more. */
static vt_status find_more(vt_cli *c, const char *given, size_t len, const vt_arg **out, vt_err *e) {
    char name[64];
    vt_arg *a = &c->more[c->n_more];
    if (!c->command->find || len >= sizeof name) return vt_cli_unknown_option(c->command, given, e);
    if (c->n_more == (int)(sizeof c->more / sizeof *c->more)) return vt_fail(e, VT_E_USAGE, "too many options");
    snprintf(name, sizeof name, "%.*s", (int)len, given);
    VT_TRY(c->command->find(c, name, a, e));
    c->n_more++;
    *out = a;
    return VT_OK;
}

/* Whether two paths are one regular file that is there. */
static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && S_ISREG(x.st_mode) && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Refuses an option for a file to write that names one which another word names: it would be overwritten. */
static vt_status check_outputs(const vt_cli *c, vt_err *e) {
    for (int i = 0; i < c->given.n; i++) {
        const char *file = c->given.list[i].value, *word = NULL;
        if (c->row[i]->about != VT_OF_OUTPUT || !c->row[i]->value) continue;
        for (int k = 0; k < c->n_positional && !word; k++)
            if (same_file(file, c->positional[k])) word = c->positional[k];
        for (int k = 0; k < c->given.n && !word; k++)
            if (k != i && same_file(file, c->given.list[k].value)) word = c->given.list[k].value;
        if (word)
            return vt_fail(e, VT_E_USAGE, "--%s is %s, which '%s' names as well: it would be overwritten",
                           c->row[i]->name, file, word);
    }
    return VT_OK;
}

/* --name value, --name=value, -o value; everything else is an operand; "--" ends options. */
vt_status vt_cli_parse(vt_cli *c, int argc, char **argv, vt_err *e) {
    bool options = true;
    for (int i = 0; i < argc; i++) {
        const char *t = argv[i];
        if (options && !strcmp(t, "--")) {
            options = false;
        } else if (options && t[0] == '-' && t[1] && (t[1] == '-' || isalpha((unsigned char)t[1]))) {
            const char *name = t + (t[1] == '-' ? 2 : 1);
            size_t len = strcspn(name, "=");
            const vt_arg *a = find_arg(c->command, name, len);
            if (!a) VT_TRY(find_more(c, name, len, &a, e));
            const char *value = name[len] == '=' ? name + len + 1 : NULL;
            if (!a->value && value)
                return vt_fail(e, VT_E_USAGE, "--%s takes no value, but '%s' was given", a->name, value);
            if (a->value && !value) {
                if (i + 1 >= argc)
                    return vt_fail(e, VT_E_USAGE, "--%s needs a value: --%s %s", a->name, a->name, a->value);
                value = argv[++i];
            }
            if (c->given.n == VT_CHOICES_MOST) return vt_fail(e, VT_E_USAGE, "too many options");
            c->row[c->given.n] = a;
            vt_choose(&c->given, a->name, value ? value : "");
        } else {
            if (c->n_positional >= c->command->max_operands)
                return vt_fail(e, VT_E_USAGE, "vitrine %s: unexpected operand '%s'", c->command->name, t);
            c->positional[c->n_positional++] = t;
        }
    }
    if (c->n_positional < c->command->min_operands)
        return vt_fail(e, VT_E_USAGE, "vitrine %s needs %s (see 'vitrine help %s')", c->command->name,
                       c->command->operands, c->command->name);
    return check_outputs(c, e);
}

/* Two libraries read their environment before main runs, so a choice means starting again, once. OpenBLAS older than
 * the CPU falls back to SSE kernels, three to four times slower. OpenMP's threads spin while they wait, which on a
 * machine with other work costs ten times the processor time of a small run: they shall sleep. What the user has chosen
 * stays. OpenBLAS starts a thread of its own for each processor, with 128 MB, none of which has ever work here. */
static void prefer_good_libraries(char **argv) {
    const char *better = getenv("OPENBLAS_CORETYPE") ? NULL : vt_blas_better_kernel();
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    bool patient = getenv("OMP_WAIT_POLICY") != NULL, alone = threads && !strcmp(threads, "1");
    if ((!better && patient && alone) || getenv("VITRINE_RESTARTED")) return;
    if (better) setenv("OPENBLAS_CORETYPE", better, 1);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("VITRINE_RESTARTED", "1", 1);
    char self[VT_PATH_MAX];
    if (vt_cli_own_path(self)) execv(self, argv);
    if (better) unsetenv("OPENBLAS_CORETYPE"); /* exec failed: go on as it is */
}

/* Prints the error, flushes the output and returns the exit status; unwritable output is an error. */
static int report_status(vt_status s, const vt_err *e) {
    if (s != VT_OK) fprintf(stderr, "vitrine: %s\n", e->text[0] ? e->text : vt_status_name(s));
    FILE *f = vt_script_stream() ? vt_script_stream() : stdout;
    if (fflush(f) != 0 || ferror(f)) {
        if (s == VT_OK) fprintf(stderr, "vitrine: standard output could not be written\n");
        return s == VT_OK ? 1 : vt_exit_code(s);
    }
    return vt_exit_code(s);
}

/* Writes command and options that all ranks must share and that no later comparison would find. */
static void describe_invocation(const vt_cli *c, char *out, size_t size) {
    static const char *const options[] = {"max-steps", "only", "shard"};
    size_t n = (size_t)snprintf(out, size, "%s", c->command->name);
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        for (int i = 0; vt_cli_nth(c, options[k], i) && n < size; i++)
            n += (size_t)snprintf(out + n, size - n, " --%s %s", options[k], vt_cli_nth(c, options[k], i));
}

/* Fails for a rank whose command line differs from rank 0's (vt_team_same). */
static vt_status other_words(const void *ctx, const char *first, const char *mine, vt_err *e) {
    (void)ctx;
    return vt_fail(e, VT_E_USAGE, "was started to %s, rank 0 to %s: all ranks need the same words", mine, first);
}

/* Checks that all ranks were started with the same command and options. */
static vt_status same_words(const vt_cli *c, vt_err *e) {
    char mine[600];
    describe_invocation(c, mine, sizeof mine);
    return vt_team_same(c->team, mine, other_words, NULL, e);
}

/* Runs the command; refuses several ranks if it is the work of one process. */
static vt_status run_command(const vt_cli *c, vt_err *e) {
    if (c->team) VT_TRY(same_words(c, e));
    if (c->team && !c->command->ranks)
        return vt_fail(e, VT_E_USAGE, "vitrine %s is the work of one process, but %d were started: leave mpirun out",
                       c->command->name, c->team->size);
    VT_TRY(vt_script_begin(c, e));
    return c->command->run(c, e);
}

/* Ends together with the other ranks, if there are any. Returns the exit status. */
static int end_program(const vt_cli *c, vt_status s, vt_err *e) {
    s = vt_team_leave(c->team, s, e);
    int code = report_status(s, e);
    vt_ranks_end(c->team);
    return code;
}

int main(int argc, char **argv) {
    vt_err e = {0};
    vt_streams_open();
    vt_cli_guard_mapped();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a write error with a sentence, not the end of the process */
    signal(SIGCHLD, SIG_DFL); /* ignored by whoever started this, it would hide the end of a child from vt_spawn_wait */
    static vt_cli c;
    if (vt_ranks_launched()) prefer_good_libraries(argv); /* which may start again, and so comes first */
    vt_status s = vt_ranks_begin(&c.team, &e);
    if (s != VT_OK) return end_program(&c, s, &e);
    if (argc < 2) {
        vt_help_all(stderr);
        end_program(&c, VT_OK, &e);
        return 2;
    }
    const char *name = argv[1];
    bool help = !strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h");
    if (!strcmp(name, "--version")) {
        printf("vitrine %s\n", VT_VERSION);
        return end_program(&c, VT_OK, &e);
    }
    if (help && argc == 2) {
        vt_help_all(stdout);
        return end_program(&c, VT_OK, &e);
    }
    if (help) name = argv[2];
    if (help && !strcmp(name, "recipe")) {
        vt_streams_wrap(), vt_recipe_help(stdout);
        return end_program(&c, VT_OK, &e);
    }
    const vt_command *command = vt_command_find(name);
    if (!command) return end_program(&c, fail_unknown_command(name, &e), &e);
    for (int i = 2; i < argc && !help && strcmp(argv[i], "--"); i++)
        help = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
    if (help) {
        vt_help_command(stdout, command);
        return end_program(&c, VT_OK, &e);
    }
    c.command = command, c.argc = argc, c.argv = argv;
    s = vt_cli_parse(&c, argc - 2, argv + 2, &e);
    if (s == VT_OK) {
        prefer_good_libraries(argv);
        vt_blas_single_thread();
        s = run_command(&c, &e);
    }
    return end_program(&c, s, &e);
}
