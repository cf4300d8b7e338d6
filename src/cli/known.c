/* SPDX-License-Identifier: MIT */
#include "cli/known.h"

#include <stdio.h>
#include <string.h>
#include "models/checkpoint/doubt.h"

enum { COMMAND = 1200 };

static void append_text(char out[COMMAND], const char *text, size_t n) {
    size_t used = strlen(out);
    if (n >= COMMAND - used) n = COMMAND - used - 1;
    memcpy(out + used, text, n), out[used + n] = 0;
}

/* A word as a shell takes it back. */
static void add_word(char out[COMMAND], const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*out) append_text(out, " ", 1);
    if (*word && strspn(word, plain) == strlen(word)) return append_text(out, word, strlen(word));
    append_text(out, "'", 1);
    for (; *word; word++) append_text(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    append_text(out, "'", 1);
}

/* The command line with the options behind it, before a "--" that would make them operands. */
static void append_command_line(char out[COMMAND], const vt_cli *c, const char *options) {
    int i = 0;
    for (; i < c->argc && strcmp(c->argv[i], "--"); i++) add_word(out, c->argv[i]);
    append_text(out, options, strlen(options));
    for (; i < c->argc; i++) add_word(out, c->argv[i]);
}

/* `vitrine doctor FILE --data DIR` with the options given for the model: it finds the rest. */
static void append_doctor_command(char out[COMMAND], const vt_cli *c, const vt_model *m) {
    static const vt_arg told[] = {VT_MODEL_ARGS,
                                  {"attack-at", "", ""},
                                  {"preprocess", "", ""},
                                  {"split", "", ""},
                                  {"class-order", "", ""}};
    const char *data = c ? vt_cli_get(c, "data") : NULL;
    add_word(out, c && c->argc ? c->argv[0] : "vitrine"), add_word(out, "doctor"), add_word(out, m->path);
    add_word(out, "--data"), add_word(out, data ? data : "DIR");
    for (int i = 0; c && i < c->given.n; i++)
        for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
            char option[40];
            if (strcmp(c->given.list[i].name, told[k].name)) continue;
            snprintf(option, sizeof option, "--%.30s", told[k].name);
            add_word(out, option), add_word(out, c->given.list[i].value);
        }
}

void vt_cli_say_assumed(const vt_model *m) {
    char text[1000];
    if (vt_model_part_text(m, text, sizeof text))
        fprintf(stderr, "vitrine: %s: %s; --part NAME reads another\n", m->path, text);
    if (vt_model_assumed(m, text, sizeof text))
        fprintf(stderr,
                "vitrine: %s: assumed, not in the file: %s; `vitrine doctor --logits` proves or corrects them\n",
                m->path, text);
}

static vt_status check_model_known(const vt_cli *c, const vt_model *m, vt_err *e) {
    char what[1000], options[300], doctor[COMMAND] = "", command[COMMAND] = "", map[100] = "";
    if (!vt_model_missing(m, what, sizeof what, options, sizeof options)) {
        vt_cli_say_assumed(m);
        return VT_OK;
    }
    if (*m->own_map) snprintf(map, sizeof map, " (--names %s takes that map's word)", m->own_map);
    append_doctor_command(doctor, c, m);
    if (c) {
        append_command_line(command, c, options);
    } else {
        const char *const words[] = {"vitrine", "convert", m->path, "COPY.safetensors"};
        for (int i = 0; i < 4; i++) add_word(command, words[i]);
        append_text(command, options, strlen(options));
    }
    return vt_fail(e, VT_E_USAGE,
                   "%s: neither its tensors nor anything beside them tell %s%s: `vitrine doctor --logits` finds them "
                   "by logits of PyTorch, on labelled images `%s` tries them; or give what is true, as in %s",
                   m->path, what, map, doctor, command);
}

vt_status vt_cli_known(const vt_cli *c, const vt_model *m, vt_err *e) { return check_model_known(c, m, e); }

vt_status vt_cli_known_alone(const vt_model *m, vt_err *e) { return check_model_known(NULL, m, e); }
