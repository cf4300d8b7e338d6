/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include "cli/streams.h"
#include "parallel/fibers.h"
#include "base/files.h"
#include "base/json.h"
#include "base/opt.h"
#include "parallel/threads.h"
#include "eval/prepare.h"

const char *vt_cli_nth(const vt_cli *c, const char *name, int i) { return vt_chosen_nth(&c->given, name, i); }
bool vt_cli_has(const vt_cli *c, const char *name) { return vt_is_chosen(&c->given, name); }
const char *vt_cli_get(const vt_cli *c, const char *name) { return vt_chosen(&c->given, name); }

bool vt_cli_set(vt_cli *c, const char *name, const char *value) {
    const vt_arg *a = vt_arg_find(c->command->args, name);
    if (a && c->given.n < VT_CHOICES_MOST) c->row[c->given.n] = a;
    return a && vt_choose(&c->given, a->name, value);
}

vt_status vt_cli_int(const vt_cli *c, const char *name, long long min, long long max, long long absent, long long *out,
                     vt_err *e) {
    return vt_chosen_int(&c->given, name, min, max, absent, out, e);
}

vt_status vt_cli_batch(const vt_cli *c, int *out, vt_err *e) {
    long long n;
    VT_TRY(vt_cli_int(c, "batch", 1, VT_FIBER_MOST, 1, &n, e));
    *out = (int)n;
    return VT_OK;
}

vt_status vt_cli_threads(const vt_cli *c, long long *out, vt_err *e) {
    int usual = 1;
    if (!vt_cli_has(c, "threads")) VT_TRY(vt_thread_count(&usual, e));
    return vt_cli_int(c, "threads", 1, VT_THREADS_MOST, usual, out, e);
}

vt_status vt_cli_overrides(const vt_cli *c, vt_overrides *o, vt_err *e) {
    return vt_prepare_overrides(&c->given, o, e);
}

vt_status vt_cli_model(const vt_cli *c, vt_model **out, vt_err *e) {
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    return vt_prepare_open(out, c->positional[0], &o, e);
}

/* ---- command lines to be copied ---- */

/* Appends the first n bytes of text to the string in out [size], cut to fit. */
static void append_text(char *out, size_t size, const char *text, size_t n) {
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%.*s", (int)n, text);
}

void vt_cli_add_word(char *out, size_t size, const char *word) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    append_text(out, size, " ", *out != 0);
    if (*word && strspn(word, plain) == strlen(word)) return append_text(out, size, word, strlen(word));
    append_text(out, size, "'", 1);
    for (; *word; word++) append_text(out, size, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    append_text(out, size, "'", 1);
}

void vt_cli_again(char *out, size_t size, const vt_cli *c, const vt_command *to) {
    char word[VT_PATH_MAX];
    *out = 0;
    if (c->n_positional) {
        snprintf(word, sizeof word, "%s%s", *c->positional[0] == '-' ? "./" : "", c->positional[0]);
        vt_cli_add_word(out, size, word);
    }
    for (int i = 0; i < c->given.n; i++) {
        const vt_arg *a = c->row[i];
        bool same = a->about == VT_OF_MODEL || a->about == VT_OF_DATA || a->about == VT_OF_THREAT;
        if (!same || !strcmp(a->name, "eps") || !vt_arg_find(to->args, a->name)) continue;
        snprintf(word, sizeof word, "--%s", a->name);
        vt_cli_add_word(out, size, word);
        if (a->value) vt_cli_add_word(out, size, c->given.list[i].value);
    }
}

/* ---- signals ---- */

static volatile sig_atomic_t interrupted;

enum { BY_USER = 1, BY_CLOCK };

/* Notes SIGINT, SIGTERM or SIGALRM; a clock does not undo what a user did. */
static void on_signal(int number) {
    if (number != SIGALRM)
        interrupted = BY_USER;
    else if (!interrupted)
        interrupted = BY_CLOCK;
}

/* On a stack of its own: kernels of the product libraries keep numbers further below the stack's end than the 128 bytes
 * that a signal leaves alone, and one in eight interrupts made them write into other memory (oneDNN 2.6.3, AVX2). The
 * second signal ends the process. */
const volatile sig_atomic_t *vt_cli_interruptible(void) {
    static char stack[1 << 16];
    const struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART | (int)SA_RESETHAND};
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    return &interrupted;
}

void vt_cli_alarm(double seconds) {
    const struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    const struct itimerval when = {
        .it_value = {(time_t)seconds, 1 + (suseconds_t)((seconds - floor(seconds)) * 999998)}};
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &when, NULL);
}

bool vt_cli_time_is_up(void) {
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    if (interrupted != BY_CLOCK) return false;
    interrupted = 0;
    return true;
}

/* Ends the command on SIGBUS; calls only what a signal handler may. */
static void on_cut(int number) {
    static const char text[] = "vitrine: a mapped file was cut while it was read\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
    _exit(1);
}

void vt_cli_guard_mapped(void) {
    const struct sigaction a = {.sa_handler = on_cut, .sa_flags = SA_ONSTACK};
    sigaction(SIGBUS, &a, NULL);
}

/* ---- output ---- */

static FILE *document;
static bool quiet;
static size_t at_begin; /* requests that jansson was refused before the command began */

bool vt_script_quiet(void) { return quiet; }
FILE *vt_script_stream(void) { return document; }

vt_status vt_script_begin(const vt_cli *c, vt_err *e) {
    const char *json = NULL; /* verify's is a file's name, - for standard output */
    for (int i = 0; i < c->given.n; i++)
        if (!strcmp(c->given.list[i].name, "json")) json = c->row[i]->value ? c->given.list[i].value : "-";
    quiet = vt_cli_has(c, "quiet");
    at_begin = vt_json_refused();
    bool wanted = json && !strcmp(json, "-");
    FILE *before = wanted || quiet ? vt_streams_mute() : stdout;
    if (!before) return vt_fail(e, VT_E_MEMORY, "no memory to be silent");
    if (wanted) document = before;
    return VT_OK;
}

vt_status vt_script_print(json_t *o, vt_err *e) {
    bool good = vt_json_refused() == at_begin && (!document || vt_json_write(document, o, JSON_INDENT(1)));
    json_decref(o);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the document");
}

void vt_cli_show(void *ctx, const char *text, bool live) {
    (void)ctx;
    if (!quiet) vt_streams_live(text, !live);
}

vt_progress vt_cli_progress(void) { return (vt_progress){.show = vt_cli_show, .live = isatty(STDERR_FILENO)}; }

vt_look vt_cli_look(const vt_cli *c) {
    return (vt_look){vt_cli_has(c, "verbose") ? 0 : vt_streams_width(), vt_streams_style};
}
