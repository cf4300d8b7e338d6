/* SPDX-License-Identifier: MIT */
#include "cli/words.h"

#include <ctype.h>
#include <string.h>
#include "attacks/attack.h"
#include "cli/help.h"
#include "models/arch.h"
#include "models/checkpoint/names.h"
#include "models/forms.h"
#include "models/wrap/wrap.h"
#include "research/analysis/analyze.h"
#include "research/lab/lab.h"
#include "train/recipe_keys.h"

/* Each prints a registry's names. */
#define NAMES(list, type, all)                                                                                         \
    static void list(FILE *f) {                                                                                        \
        int n;                                                                                                         \
        const type *const *defs = all(&n);                                                                             \
        for (int i = 0; i < n; i++) fprintf(f, " %s", defs[i]->name);                                                  \
    }
NAMES(attacks, vt_attack_def, vt_attack_defs)
NAMES(attns, vt_attn, vt_attns)
NAMES(wraps, vt_wrap_def, vt_wrap_defs)
NAMES(lab_names, vt_lab_def, vt_lab_defs)
NAMES(analyses, vt_analysis_def, vt_analysis_defs)
NAMES(schemes, vt_names_def, vt_names_defs)

static void print_preset_names(FILE *f) {
    int n;
    const vt_preset *p = vt_presets(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", p[i].name);
}

static void print_form_keys(FILE *f) {
    int n;
    const vt_form *form = vt_forms(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s=", form[i].opt.key);
}

static void print_naming_maps(FILE *f) {
    int n;
    const vt_names_map *map = vt_names_maps(&n);
    schemes(f);
    for (int i = 0; i < n; i++) fprintf(f, " %s", map[i].name);
}

static void recipe_keys(FILE *f) {
    vt_recipe_section s;
    for (int i = 0; vt_recipe_section_at(NULL, i, &s); i++)
        for (const vt_opt *o = s.opts; o && o->key; o++) fprintf(f, " %s%s%s=", s.name, *s.name ? "." : "", o->key);
}

static void print_help_topics(FILE *f) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", all[i]->name);
    fputs(" recipe --man", f);
}

/* "show" before a name: in that command alone; "" behind it: that command's operands. The first that fits counts. */
static const struct {
    const char *name;
    vt_words_kind kind;
    void (*words)(FILE *f);
    bool paths;
} rows[] = {
    {"export attack", VT_WORDS_NONE, NULL, false}, /* the names of its run */
    {"attack", VT_WORDS_LIST, attacks, false},
    {"attacks", VT_WORDS_LIST, attacks, false},
    {"confirm-with", VT_WORDS_LIST, attacks, false},
    {"preset", VT_WORDS_ONE, print_preset_names, false},
    {"attn", VT_WORDS_ONE, attns, false},
    {"form", VT_WORDS_ONE, print_form_keys, false},
    {"names", VT_WORDS_ONE, print_naming_maps, true},
    {"wrap", VT_WORDS_ONE, wraps, false},
    {"train set", VT_WORDS_ONE, recipe_keys, false},
    {"oracle", VT_WORDS_FILE, NULL, false},
    {"surrogate-oracle", VT_WORDS_FILE, NULL, false},
    {"table data", VT_WORDS_FOLDER, NULL, false},
    {"analyze ", VT_WORDS_ONE, analyses, true},
    {"lab ", VT_WORDS_ONE, lab_names, false},
    {"new ", VT_WORDS_ONE, print_preset_names, false},
    {"help ", VT_WORDS_ONE, print_help_topics, false},
};

static bool path_word(const char *text, size_t n, const char *word) {
    return n >= strlen(word) && !memcmp(text, word, strlen(word));
}

/* By what stands in the usage line: "test|train" are words, FILE and the like paths, DIR and FOLDER folders. */
static vt_words_kind by_metavar(FILE *f, const char *text, bool *paths) {
    vt_words_kind kind = VT_WORDS_NONE;
    static const char *const files[] = {"FILE", "PATH", "WEIGHTS", "CKPT", "RECIPE", "RUN", "MANIFEST", "OUT"};
    if (!strcmp(text, "DIR") || !strcmp(text, "FOLDER")) return VT_WORDS_FOLDER;
    for (const char *p = text + strspn(text, "["); *p; p += strcspn(p, "|"), p += *p == '|') {
        size_t n = strcspn(p, "|");
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) *paths = *paths || path_word(p, n, files[i]);
        if (strchr(text, '|') && islower((unsigned char)*p)) fprintf(f, " %.*s", (int)n, p), kind = VT_WORDS_ONE;
    }
    if (kind == VT_WORDS_NONE && *paths) kind = VT_WORDS_FILE;
    return kind;
}

vt_words_kind vt_words(FILE *f, const vt_command *c, const vt_arg *a, bool *paths) {
    *paths = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!vt_help_row(rows[i].name, c, a ? a->name : "")) continue;
        if (rows[i].words) rows[i].words(f);
        *paths = rows[i].paths;
        return rows[i].kind;
    }
    const char *text = a ? a->metavar : c->operands;
    return text ? by_metavar(f, text, paths) : VT_WORDS_NONE;
}
