/* SPDX-License-Identifier: MIT */
/* vitrine completion: scripts by which shells ask this program what may stand at the cursor (vitrine completion words).
 * The answer comes from the tables of commands and options and from the registries of plug-ins. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "cli/cli.h"
#include "base/text.h"
#include "base/version.h"
#include "models/arch.h"
#include "checkpoint/names.h"
#include "models/forms.h"
#include "eval/certifier.h"
#include "inference/wrap.h"
#include "research/analysis/analyze.h"
#include "research/lab/lab.h"
#include "train/recipe.h"

/* ---- what a value may be ---- */

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
NAMES(certifiers, vt_certifier_def, vt_certifier_defs)
NAMES(lab_names, vt_lab_def, vt_lab_defs)
NAMES(analyses, vt_analysis_def, vt_analysis_defs)

/* Prints " NAME" for each preset. */
static void print_preset_names(FILE *f) {
    int n;
    const vt_preset *p = vt_presets(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", p[i].name);
}

/* Prints " KEY=" for each form. */
static void print_form_keys(FILE *f) {
    int n;
    const vt_form *form = vt_forms(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s=", form[i].opt.key);
}

/* Prints " NAME" for each naming scheme of a library and each name map. */
static void print_naming_maps(FILE *f) {
    int n;
    const vt_names_def *known = vt_names_defs(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", known[i].name);
    const vt_names_map *map = vt_names_maps(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", map[i].name);
}

/* Prints " SECTION.KEY=" for each key of a recipe. */
static void recipe_keys(FILE *f) {
    vt_recipe_section s;
    for (int i = 0; vt_recipe_section_at(NULL, i, &s); i++)
        for (const vt_opt *o = s.opts; o && o->key; o++) fprintf(f, " %s%s%s=", s.name, *s.name ? "." : "", o->key);
}

/* Prints " TOPIC" for each command, and recipe. */
static void print_help_topics(FILE *f) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    for (int i = 0; i < n; i++) fprintf(f, " %s", all[i]->name);
    fputs(" recipe", f);
}

/* Values, by the first word of their description in a row or usage line, that name something of a registry. Several
 * ATTACKs may have '+' or ',' between them. */
static const struct {
    const char *value;
    void (*words)(FILE *f);
} named[] = {
    {"ATTACK", attacks},
    {"ATTACKS", attacks},
    {"PRESET", print_preset_names},
    {"VARIANT", attns},
    {"FORM=VALUE", print_form_keys},
    {"MAP", print_naming_maps},
    {"WRAP", wraps},
    {"METHOD", certifiers},
    {"KEY=VALUE", recipe_keys},
    {"KIND", analyses},
    {"LAB", lab_names},
    {"TOPIC", print_help_topics},
};
static const char *const files[] = {"FILE", "PATH", "WEIGHTS",  "CKPT", "RECIPE",
                                    "RUN",  "MAP",  "MANIFEST", "OUT",  "COMMAND"};

/* The words that a value may be, a blank before each; of "test|train" these two. */
static void print_words(FILE *f, const char *value) {
    const char *p = value + strspn(value, "[");
    for (size_t i = 0, n = strcspn(p, " ]"); i < sizeof named / sizeof *named; i++) {
        if (strlen(named[i].value) != n || strncmp(p, named[i].value, n)) continue;
        named[i].words(f);
        return;
    }
    for (size_t n; strchr(value, '|') && *p; p += n + (p[n] == '|')) {
        n = strcspn(p, "|");
        if (islower((unsigned char)*p)) fprintf(f, " %.*s", (int)n, p);
    }
}

/* Returns what else a value may be: "files", "folders", or "words" (nothing else). */
static const char *paths_of(const char *value) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(value, files[i])) return "files";
    return strstr(value, "FOLDER") || strstr(value, "DIR") ? "folders" : "words";
}

/* ---- what may stand at the cursor ---- */

static const vt_command help = {.name = "help", .summary = "what a command takes", .operands = "TOPIC"};

/* Prints "BEFOREWORD<tab>WHAT" if that begins with what stands at the cursor. */
static void offer(FILE *f, const char *current, const char *before, const char *word, const char *what) {
    char whole[1200];
    snprintf(whole, sizeof whole, "%s%s", before, word);
    if (!strncmp(whole, current, strlen(current))) fprintf(f, "%s\t%s\n", whole, what);
}

/* Offers the commands, with their summaries. */
static void offer_commands(FILE *f, const char *current) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    for (int i = 0; i < n; i++) offer(f, current, "", all[i]->name, all[i]->summary);
    offer(f, current, "", help.name, help.summary);
    offer(f, current, "", "--help", "the commands"), offer(f, current, "", "--version", "the version");
}

/* Offers the options of a command, with their help. */
static void offer_options(FILE *f, const char *current, const vt_command *c) {
    for (const vt_arg *a = c->args; a && a->name; a++)
        offer(f, current, strlen(a->name) == 1 ? "-" : "--", a->name, a->help);
    offer(f, current, "", "--help", "what it takes");
}

/* Offers the words that a value may be. Of a list (a+b,c) the words before the last one stay, as do the first `before`
 * bytes of current ("--attack="). */
static vt_status offer_values(FILE *f, const char *current, size_t before, const char *value, vt_err *e) {
    vt_text_stream w;
    FILE *words = vt_text_stream_open(&w);
    if (words) print_words(words, value);
    char *text = vt_text_stream_close(&w), *rest = text, kept[1000];
    if (!text) return vt_fail(e, VT_E_MEMORY, "no memory for the words of an option");
    if (!strncmp(value, "ATTACK", 6))
        for (size_t i = before; current[i]; i++)
            if (strchr("+,", current[i])) before = i + 1;
    snprintf(kept, sizeof kept, "%.*s", (int)before, current);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && strlen(kept) == before) offer(f, current, kept, word, "");
    free(text);
    return VT_OK;
}

/* Returns the option whose value stands at the cursor, after it or after "=" in the same word, or NULL; *before: bytes
 * of current up to the value. */
static const vt_arg *find_option(const vt_command *c, const char *previous, const char *current, size_t *before) {
    for (const vt_arg *a = c->args; a && a->name; a++) {
        char dashed[80];
        size_t n = (size_t)snprintf(dashed, sizeof dashed, "%s%s", strlen(a->name) == 1 ? "-" : "--", a->name);
        if (a->value && !strcmp(previous, dashed)) return a;
        if (!a->value || strncmp(current, dashed, n) || current[n] != '=') continue;
        *before = n + 1;
        return a;
    }
    return NULL;
}

/* Prints what may stand at the cursor. Line 1: "files", "folders" or "words" (no paths); then the words, each with what
 * it is after a tab. */
static vt_status answer(const char *command, const char *previous, const char *current, vt_err *e) {
    const vt_command *c = strcmp(command, help.name) ? vt_command_find(command) : &help;
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    size_t before = 0;
    vt_status s = VT_OK;
    const vt_arg *a = c ? find_option(c, previous, current, &before) : NULL;
    const char *value = a ? a->value : c && c->operands ? c->operands : "";
    if (f && !*command)
        offer_commands(f, current);
    else if (f && c && !a && *current == '-')
        offer_options(f, current, c), value = "";
    else if (f)
        s = offer_values(f, current, before, value, e);
    char *text = vt_text_stream_close(&w);
    if (s == VT_OK && !text) s = vt_fail(e, VT_E_MEMORY, "no memory for what may stand there");
    if (s == VT_OK) printf("%s\n%s", *text ? "words" : paths_of(value), text);
    free(text);
    return s;
}

/* ---- the command ---- */

/* src/cli/completion.bash and so on. */
static const struct {
    const char *name, *script;
} shells[] = {
#include "completion.inc"
};

/* Runs vitrine completion: prints a shell's script, or the words that complete a command line. */
static vt_status run(const vt_cli *c, vt_err *e) {
    const char *name = c->positional[0];
    if (!strcmp(name, "words") && c->n_positional == 4)
        return answer(c->positional[1], c->positional[2], c->positional[3], e);
    if (c->n_positional > 1)
        return vt_fail(e, VT_E_USAGE, "vitrine completion: unexpected operand '%s'", c->positional[1]);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(name, shells[i].name)) {
            printf("%s# completion of vitrine " VT_VERSION " for %s, written by `vitrine completion %s`\n%s",
                   strcmp(name, "zsh") ? "" : "#compdef vitrine\n", name, name, shells[i].script);
            return VT_OK;
        }
    return vt_fail(e, VT_E_USAGE, "vitrine completion: '%s' is not one of bash, zsh, fish", name);
}

const vt_command vt_command_completion = {
    .name = "completion",
    .summary = "a script by which a shell completes commands, options, attacks, presets",
    .operands = "bash|zsh|fish",
    .min_operands = 1,
    .max_operands = 4,
    .details =
        "bash: source <(vitrine completion bash), or the output as a file in /usr/share/bash-completion/completions. "
        "zsh: the output as the file _vitrine in a folder of fpath. fish: the output as "
        "~/.config/fish/completions/vitrine.fish. `make install` puts all three where they belong. The scripts ask the "
        "program at each completion: vitrine completion words -- COMMAND PREVIOUS CURRENT.",
    .examples = {"vitrine completion bash >vitrine.bash", "vitrine completion fish >vitrine.fish"},
    .run = run,
};
