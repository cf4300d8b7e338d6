/* SPDX-License-Identifier: MIT */
#include "cli/help.h"

#include <string.h>
#include "cli/streams.h"
#include "core/version.h"

const char *const vt_help_titles[VT_GROUPS] = {"Model", "Data", "Threat", "Attack", "Output", "Run"};

/* "show" before a name: in that command alone. Whatever is not here is about the run. */
static const struct {
    const char *name;
    vt_group group;
} groups[] = {
    {"heads", VT_GROUP_MODEL},
    {"image-size", VT_GROUP_MODEL},
    {"mean", VT_GROUP_MODEL},
    {"std", VT_GROUP_MODEL},
    {"ln-eps", VT_GROUP_MODEL},
    {"attn-scale", VT_GROUP_MODEL},
    {"preset", VT_GROUP_MODEL},
    {"attn", VT_GROUP_MODEL},
    {"form", VT_GROUP_MODEL},
    {"names", VT_GROUP_MODEL},
    {"part", VT_GROUP_MODEL},
    {"oracle", VT_GROUP_MODEL},
    {"oracle-timeout", VT_GROUP_MODEL},
    {"wrap", VT_GROUP_MODEL},
    {"weights", VT_GROUP_MODEL},
    {"init", VT_GROUP_MODEL},
    {"new set", VT_GROUP_MODEL},
    {"data", VT_GROUP_DATA},
    {"logits", VT_GROUP_DATA},
    {"images", VT_GROUP_DATA},
    {"indices", VT_GROUP_DATA},
    {"spectrum split", VT_GROUP_OUTPUT},
    {"split", VT_GROUP_DATA},
    {"class-order", VT_GROUP_DATA},
    {"preprocess", VT_GROUP_DATA},
    {"attack-at", VT_GROUP_DATA},
    {"restrict-classes", VT_GROUP_DATA},
    {"corruption", VT_GROUP_DATA},
    {"severity", VT_GROUP_DATA},
    {"input", VT_GROUP_DATA},
    {"adv", VT_GROUP_DATA},
    {"tensor", VT_GROUP_DATA},
    {"eps", VT_GROUP_THREAT},
    {"norm", VT_GROUP_THREAT},
    {"threat", VT_GROUP_THREAT},
    {"export attack", VT_GROUP_OUTPUT},
    {"attack", VT_GROUP_ATTACK},
    {"attacks", VT_GROUP_ATTACK},
    {"profile", VT_GROUP_ATTACK},
    {"surrogate", VT_GROUP_ATTACK},
    {"surrogate-oracle", VT_GROUP_ATTACK},
    {"as-published", VT_GROUP_ATTACK},
    {"export eight-bit", VT_GROUP_OUTPUT},
    {"eight-bit", VT_GROUP_ATTACK},
    {"individual", VT_GROUP_ATTACK},
    {"targets", VT_GROUP_ATTACK},
    {"confirm", VT_GROUP_ATTACK},
    {"confirm-with", VT_GROUP_ATTACK},
    {"allowance", VT_GROUP_THREAT},
    {"out", VT_GROUP_OUTPUT},
    {"o", VT_GROUP_OUTPUT},
    {"csv", VT_GROUP_OUTPUT},
    {"tex", VT_GROUP_OUTPUT},
    {"json", VT_GROUP_OUTPUT},
    {"plot", VT_GROUP_OUTPUT},
    {"format", VT_GROUP_OUTPUT},
    {"force", VT_GROUP_OUTPUT},
    {"pictures", VT_GROUP_OUTPUT},
    {"save-adv", VT_GROUP_OUTPUT},
    {"save-npz", VT_GROUP_OUTPUT},
    {"verbose", VT_GROUP_OUTPUT},
    {"quiet", VT_GROUP_OUTPUT},
    {"changed", VT_GROUP_OUTPUT},
    {"tensors", VT_GROUP_OUTPUT},
    {"explain", VT_GROUP_OUTPUT},
};

bool vt_help_row(const char *row, const vt_command *c, const char *name) {
    size_t n = strlen(c->name);
    if (strncmp(row, c->name, n) == 0 && row[n] == ' ') row += n + 1;
    return !strcmp(row, name);
}

vt_group vt_help_group(const vt_command *c, const char *name) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (vt_help_row(groups[i].name, c, name)) return groups[i].group;
    return VT_GROUP_RUN;
}

/* ---- the same model, data and threat for another command ---- */

static bool has_option(const vt_command *c, const char *name) {
    for (const vt_arg *a = c->args; a && a->name; a++)
        if (!strcmp(a->name, name)) return true;
    return false;
}

typedef struct words {
    char *out;
    size_t size, n;
} words;

static void append_text(words *l, const char *text) {
    for (; *text && l->n + 1 < l->size; text++) l->out[l->n++] = *text;
    l->out[l->n] = 0;
}

/* One word of a shell. */
static void put_word(words *f, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (*text && strspn(text, plain) == strlen(text)) {
        append_text(f, text);
        return;
    }
    append_text(f, "'");
    for (; *text; text++) append_text(f, *text == '\'' ? "'\\''" : (char[2]){*text, 0});
    append_text(f, "'");
}

void vt_cli_again(char *out, size_t size, const vt_cli *c, const vt_command *to) {
    words l = {out, size, 0};
    if (c->n_positional) append_text(&l, *c->positional[0] == '-' ? "./" : ""), put_word(&l, c->positional[0]);
    for (int i = 0; i < c->given.n; i++) {
        const vt_arg *a = c->row[i];
        if (vt_help_group(c->command, a->name) > VT_GROUP_THREAT || !strcmp(a->name, "eps") || !has_option(to, a->name))
            continue;
        append_text(&l, l.n ? " --" : "--"), append_text(&l, a->name);
        if (a->metavar) append_text(&l, " "), put_word(&l, c->given.list[i].value);
    }
}

/* ---- pages ---- */

void vt_help_all(FILE *f) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    vt_streams_wrap();
    fprintf(f,
            "vitrine %s: adversarial robustness of Vision Transformers\n\nUsage: vitrine COMMAND "
            "[OPTIONS]\n\nCommands:\n",
            VT_VERSION);
    for (int i = 0; i < n; i++) fprintf(f, "  %-11s %s\n", all[i]->name, all[i]->summary);
    fputs("  help        this page; 'vitrine help COMMAND' for one command,\n"
          "              'vitrine help recipe' for the keys of a recipe;\n"
          "              --man before either: the same as a manual page\n\n"
          "Examples:\n"
          "  vitrine info weights/shapes10-vit\n"
          "  vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:50 \\\n"
          "    --eps 4/255 --attack pgd\n"
          "  vitrine list attacks\n\n"
          "eps and steps are in units of pixels in [0,1].\n"
          "Exit status 0 ok, 1 failed, 2 wrong usage.\n",
          f);
}

/* The option with its value, then what it does; both in one line where the first part is short. */
static void print_option(FILE *f, const vt_arg *a) {
    enum { LEFT = 26 };
    int n = fprintf(f, "  %s%s%s%s", strlen(a->name) == 1 ? "-" : "--", a->name, a->metavar ? " " : "",
                    a->metavar ? a->metavar : "");
    if (n > LEFT) n = fprintf(f, "\n") - 1;
    fprintf(f, "%*s%s\n", LEFT + 2 - n, "", a->help);
}

static int count_in_group(const vt_command *c, vt_group g) {
    int n = 0;
    for (const vt_arg *a = c->args; a && a->name; a++) n += vt_help_group(c, a->name) == g;
    return n;
}

static void print_options(FILE *f, const vt_command *c) {
    for (int g = 0; g < VT_GROUPS; g++) {
        if (!count_in_group(c, (vt_group)g)) continue;
        fprintf(f, "\n%s:\n", vt_help_titles[g]);
        for (const vt_arg *a = c->args; a->name; a++)
            if ((int)vt_help_group(c, a->name) == g) print_option(f, a);
    }
}

/* Paragraphs that the source breaks into lines: a single line break is a space. */
static void print_paragraphs(FILE *f, const char *text) {
    for (const char *p = text; *p; p++) fputc(*p == '\n' && p[1] != '\n' && (p == text || p[-1] != '\n') ? ' ' : *p, f);
    fputc('\n', f);
}

/* Lines that a shell runs as they stand: a long one goes on behind a backslash, before an option where one is near. */
static void print_example(FILE *f, const char *line) {
    enum { MOST = 76 };
    int left = MOST;
    for (const char *lead = "  "; (int)strlen(line) > left; lead = "    ", left = MOST - 2) {
        int cut = 0, option = 0;
        for (int i = 1; i <= left; i++)
            if (line[i] == ' ') cut = i, option = line[i + 1] == '-' ? i : option;
        if (option) cut = option;
        if (!cut) break;
        fprintf(f, "%s%.*s \\\n", lead, cut, line);
        line += cut + 1;
    }
    fprintf(f, "%s%s\n", left < MOST ? "    " : "  ", line);
}

void vt_help_command(FILE *f, const vt_command *c) {
    vt_streams_wrap();
    fprintf(f, "Usage: vitrine %s%s%s [OPTIONS]\n\n%s\n", c->name, c->operands ? " " : "",
            c->operands ? c->operands : "", c->summary);
    if (c->args) print_options(f, c);
    if (c->details) fputc('\n', f), print_paragraphs(f, c->details);
    if (c->ranks) fputc('\n', f), print_paragraphs(f, VT_HELP_RANKS);
    if (c->examples[0]) fputs("\nExamples:\n", f);
    for (int i = 0; c->examples[i]; i++) print_example(f, c->examples[i]);
}
