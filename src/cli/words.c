/* SPDX-License-Identifier: MIT */
#include "cli/words.h"

#include <ctype.h>
#include <string.h>
#include "attacks/attack.h"
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

/* Values, by the first word of their description, that name something of a registry. */
static const struct {
    const char *value;
    vt_words_kind kind;
    void (*words)(FILE *f);
} rows[] = {
    {"ATTACK", VT_WORDS_LIST, attacks},
    {"ATTACKS", VT_WORDS_LIST, attacks},
    {"PRESET", VT_WORDS_ONE, print_preset_names},
    {"VARIANT", VT_WORDS_ONE, attns},
    {"FORM=VALUE", VT_WORDS_ONE, print_form_keys},
    {"MAP", VT_WORDS_ONE, print_naming_maps},
    {"WRAP", VT_WORDS_ONE, wraps},
    {"KEY=VALUE", VT_WORDS_ONE, recipe_keys},
    {"KIND", VT_WORDS_ONE, analyses},
    {"LAB", VT_WORDS_ONE, lab_names},
    {"TOPIC", VT_WORDS_ONE, print_help_topics},
};

/* Words in small letters between bars ("test|train") are those that may be chosen; FILE and the like mean paths. */
vt_words_kind vt_words(FILE *f, const char *value, bool *paths) {
    static const char *const files[] = {"FILE", "PATH", "WEIGHTS",  "CKPT", "RECIPE",
                                        "RUN",  "MAP",  "MANIFEST", "OUT",  "COMMAND"};
    vt_words_kind kind = VT_WORDS_NONE;
    *paths = false;
    if (!value) return kind;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) *paths = *paths || strstr(value, files[i]);
    const char *p = value + strspn(value, "[");
    for (size_t i = 0, n = strcspn(p, " ]"); i < sizeof rows / sizeof *rows; i++) {
        if (strlen(rows[i].value) != n || strncmp(p, rows[i].value, n)) continue;
        rows[i].words(f);
        return rows[i].kind;
    }
    for (size_t n; strchr(value, '|') && *p; p += n + (p[n] == '|')) {
        n = strcspn(p, "|");
        if (islower((unsigned char)*p)) fprintf(f, " %.*s", (int)n, p), kind = VT_WORDS_ONE;
    }
    if (kind != VT_WORDS_NONE) return kind;
    return *paths ? VT_WORDS_FILE : strstr(value, "FOLDER") || strstr(value, "DIR") ? VT_WORDS_FOLDER : VT_WORDS_NONE;
}
