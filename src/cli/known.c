/* SPDX-License-Identifier: MIT */
/* Refuses a checkpoint with an open setting, and prints the assumed ones. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include "checkpoint/provenance.h"

enum { COMMAND = 1200 };

/* Appends words that end at NULL, quoted as a shell needs. */
static void add_words(char out[COMMAND], const char *const *words) {
    for (; *words; words++) vt_cli_add_word(out, COMMAND, *words);
}

/* Appends the command line with the options after it, but before a "--" that would make them operands; without a
 * command line, vitrine convert, which writes the options into a copy. */
static void append_command_line(char out[COMMAND], const vt_cli *c, const vt_model *m, const char *options) {
    int i = 0;
    if (!c) add_words(out, (const char *const[]){"vitrine", "convert", m->path, "COPY.safetensors", NULL});
    for (; c && i < c->argc && strcmp(c->argv[i], "--"); i++) vt_cli_add_word(out, COMMAND, c->argv[i]);
    strncat(out, options, COMMAND - 1 - strlen(out));
    for (; c && i < c->argc; i++) vt_cli_add_word(out, COMMAND, c->argv[i]);
}

/* Appends `vitrine doctor FILE --data DIR` with the options given for the model: it finds the rest. */
static void append_doctor_command(char out[COMMAND], const vt_cli *c, const vt_model *m) {
    static const vt_arg shown[] = {
        VT_MODEL_ARGS, VT_ATTACK_AT_ARG, VT_PREPROCESS_ARG, VT_SPLIT_ARG, VT_CLASS_ORDER_ARG, {0},
    };
    const char *data = c ? vt_cli_get(c, "data") : NULL, *program = c && c->argc ? c->argv[0] : "vitrine";
    add_words(out, (const char *const[]){program, "doctor", m->path, "--data", data ? data : "DIR", NULL});
    for (int i = 0; c && i < c->given.n; i++) {
        char option[40];
        if (!vt_arg_find(shown, c->given.list[i].name)) continue;
        snprintf(option, sizeof option, "--%.30s", c->given.list[i].name);
        add_words(out, (const char *const[]){option, c->given.list[i].value, NULL});
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

vt_status vt_cli_known(const vt_cli *c, const vt_model *m, vt_err *e) {
    char what[1000], options[300], doctor[COMMAND] = "", command[COMMAND] = "", map[100] = "";
    if (!vt_model_missing(m, what, sizeof what, options, sizeof options)) {
        vt_cli_say_assumed(m);
        return VT_OK;
    }
    if (*m->own_map) snprintf(map, sizeof map, " (--names %s takes that map's word)", m->own_map);
    append_doctor_command(doctor, c, m);
    if (m->config.network && !c) /* a surrogate, of which no options of the command speak */
        snprintf(command, sizeof command, "--surrogate-oracle \"vitrine serve %s%s\"", m->path, options);
    else
        append_command_line(command, c, m, options);
    if (m->config.network)
        return vt_fail(e, VT_E_USAGE,
                       "%s: no node of it scales its input, so nothing tells %s: on labelled images `%s` tries them; "
                       "or give what is true, as in %s",
                       m->path, what, doctor, command);
    return vt_fail(e, VT_E_USAGE,
                   "%s: neither its tensors nor anything beside them tell %s%s: `vitrine doctor --logits` finds them "
                   "by logits of PyTorch, on labelled images `%s` tries them; or give what is true, as in %s",
                   m->path, what, map, doctor, command);
}
