/* SPDX-License-Identifier: MIT */
/* Recipes as text: the canonical YAML of a run, what differs between two of them, and the reference of all keys. */
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/yaml.h"
#include "train/objective.h"
#include "train/recipe.h"

/* ---- canonical text ---- */

/* Writes a text in double quotes; what is stored holds no control characters (vt_recipe_set). */
static void write_quoted(FILE *f, const char *text) {
    fputc('"', f);
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\') fputc('\\', f);
        fputc(*p, f);
    }
    fputc('"', f);
}

/* Returns whether a text may stand in YAML without quotes: letters, digits, "_-", not a digit first. */
static bool is_word(const char *text) {
    static const char letters[] = "0123456789_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return strspn(text, letters + 12) && !text[strspn(text, letters)];
}

/* Writes a section's keys and values; those at a default that means nothing are left out. */
static void write_section(FILE *f, const vt_recipe_section *s) {
    char value[VT_RECIPE_VALUE_MAX];
    if (*s->name && s->opts && s->opts->key) fprintf(f, "%s:\n", s->name);
    for (const vt_opt *o = s->opts; o && o->key; o++) {
        vt_opt_value(o, s->params, value, sizeof value);
        if (o->type == VT_OPT_TEXT && !o->preset_text && !*value) continue;
        if (o->preset_text && !strcmp(o->preset_text, VT_RECIPE_NONE) && !strcmp(value, VT_RECIPE_NONE)) continue;
        fprintf(f, "%s%s: ", *s->name ? "  " : "", o->key);
        if (o->type == VT_OPT_TEXT && !is_word(value))
            write_quoted(f, value);
        else
            fputs(value, f);
        fputc('\n', f);
    }
}

/* Writes the section groups, if it has patterns. */
static void write_groups(FILE *f, const vt_recipe *r) {
    static const vt_opt decay = {.type = VT_OPT_REAL};
    if (r->n_groups) fputs("groups:\n", f);
    for (int i = 0; i < r->n_groups; i++) {
        char value[64];
        vt_opt_value(&decay, &r->groups[i].weight_decay, value, sizeof value);
        fputs("  ", f);
        write_quoted(f, r->groups[i].pattern);
        fprintf(f, ": %s\n", value);
    }
}

/* Writes the canonical text of a vt_recipe. */
static void write_recipe(FILE *f, const void *recipe) {
    const vt_recipe *r = recipe;
    vt_recipe_section s;
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++)
        if (vt_recipe_in_use(r, &s)) write_section(f, &s);
    write_groups(f, r);
}

char *vt_recipe_text(const vt_recipe *r) {
    char *text;
    return vt_text_of(&text, write_recipe, r, "the recipe", NULL) == VT_OK ? text : NULL;
}

/* ---- difference ---- */

enum { DEPTH = 3 }; /* of a canonical text: sections, keys */

/* Returns the value of a key in a section (NULL: at the top) of a canonical text's map; NULL: it is not there. */
static const char *value_in(const vt_yaml_node *map, const char *section, const char *key) {
    if (section) map = vt_yaml_get(map, section);
    const vt_yaml_node *x = map ? vt_yaml_get(map, key) : NULL;
    return x ? x->value : NULL;
}

/* Appends "section.key (was -> is)" to out, a NULL as "none"; "..." once if the item does not fit. */
static void append_difference(char *out, size_t size, const char *section, const char *key, const char *was,
                              const char *is) {
    char item[400];
    size_t used = strlen(out), n;
    snprintf(item, sizeof item, "%s%s%s%.190s (%.80s -> %.80s)", used ? ", " : "", section ? section : "",
             section ? "." : "", key, was ? was : "none", is ? is : "none");
    n = strlen(item);
    if (used + n + 6 <= size) /* room for what says that there is more */
        memcpy(out + used, item, n + 1);
    else if (used + 6 <= size && (used < 3 || strcmp(out + used - 3, "...")))
        memcpy(out + used, used ? ", ..." : "...", used ? 6 : 4);
}

/* Appends the keys of `of` (below `section`, if it is one's map) whose values in `before` and `now` differ; gone: only
 * those that `now` has not. */
static void append_differences(char *out, size_t size, const char *section, const vt_yaml_node *of,
                               const vt_yaml_node *before, const vt_yaml_node *now, bool gone) {
    for (int i = 0; i < of->n; i++) {
        const vt_yaml_node *x = &of->items[i];
        if (!section && x->kind == VT_YAML_MAP) append_differences(out, size, x->key, x, before, now, gone);
        const char *was = value_in(before, section, x->key), *is = value_in(now, section, x->key);
        if (gone ? was && !is : is && (!was || strcmp(was, is))) append_difference(out, size, section, x->key, was, is);
    }
}

void vt_recipe_diff(const char *before, const char *now, char *out, size_t size) {
    vt_yaml_node *a = NULL, *b = NULL;
    if (!size) return;
    out[0] = 0;
    if (vt_yaml_tree(&a, before, strlen(before), "", "recipe", DEPTH, NULL) == VT_OK &&
        vt_yaml_tree(&b, now, strlen(now), "", "recipe", DEPTH, NULL) == VT_OK) {
        append_differences(out, size, NULL, b, a, b, false);
        append_differences(out, size, NULL, a, a, b, true);
    }
    vt_yaml_free(a), vt_yaml_free(b);
}

/* ---- help ---- */

enum { WIDTH = 110, INDENT = 27 };

/* Writes words of text from column `column` on; further lines are indented. */
static void write_wrapped(FILE *f, const char *text, int column, int indent) {
    while (*text) {
        int blanks = (int)strspn(text, " "), n = (int)strcspn(text + blanks, " ");
        if (column + blanks + n > WIDTH && column > indent) {
            fprintf(f, "\n%*s", indent, "");
            column = indent, text += blanks, blanks = 0;
        }
        fprintf(f, "%.*s", blanks + n, text);
        column += blanks + n, text += blanks + n;
    }
}

/* Writes what a key may be, "0 to 1; " or "head|dim; ", "" for a text, into buf, which is returned. */
static const char *recipe_limits(char *buf, size_t size, const vt_opt *o) {
    if (o->type == VT_OPT_CHOICE)
        snprintf(buf, size, "%s; ", o->choices);
    else if (o->type == VT_OPT_BOOL)
        snprintf(buf, size, "0|1; ");
    else if (o->type == VT_OPT_TEXT)
        buf[0] = 0;
    else
        snprintf(buf, size, "%.10g to %.10g%s; ", o->min, o->max,
                 o->type == VT_OPT_TRIPLE ? " (three, or one for all)" : "");
    return buf;
}

/* Writes a key's line of the reference: its name, meaning, range and default. */
static void key_help(FILE *f, const vt_recipe_section *s, const vt_opt *o) {
    char key[VT_RECIPE_KEY_MAX], range[200], preset[VT_RECIPE_VALUE_MAX], text[900];
    if (!vt_recipe_full_key(key, s->name, o->key)) return;
    vt_opt_value(o, s->params, preset, sizeof preset);
    snprintf(text, sizeof text, "%s [%sdefault %s]", o->help, recipe_limits(range, sizeof range, o),
             *preset ? preset : "empty");
    int n = fprintf(f, "  %-*s ", INDENT - 3, key);
    if (n > INDENT) fprintf(f, "\n%*s", INDENT, "");
    write_wrapped(f, text, INDENT, INDENT);
    fputc('\n', f);
}

void vt_recipe_help(FILE *f) {
    static const char *const titles[] = {[VT_RECIPE_OBJECTIVE] = "\nOBJECTIVES, by the key objective",
                                         [VT_RECIPE_OPTIM] =
                                             "\nOPTIMISERS, by the keys optimiser and attention_optimiser",
                                         [VT_RECIPE_PENALTY] = "\nPENALTIES, each active by its own keys"};
    vt_recipe *r;
    vt_recipe_section s;
    int family = VT_RECIPE_OWN;
    if (vt_recipe_new(&r, NULL) != VT_OK) return;
    fputs("A recipe is YAML: keys at the top, or indented below the name of their section; " VT_OPTION
          "set attack.eps=8/255 sets\n"
          "one key after the file. Sizes are in pixel units and may be fractions; shares of the training lie in "
          "[0,1].\n"
          "\n",
          f);
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++) {
        char intro[600];
        bool ref = s.reference && strcmp(s.reference, "-");
        if ((int)s.family != family) fprintf(f, "%s\n", titles[family = s.family]);
        snprintf(intro, sizeof intro, "%s%s%s%s%s%s", s.name, *s.name ? ": " : "", s.intro, ref ? " (" : "",
                 ref ? s.reference : "", ref ? ")" : "");
        if (i) fputc('\n', f);
        write_wrapped(f, intro, 0, 2);
        fputc('\n', f);
        for (const vt_opt *o = s.opts; o && o->key; o++) key_help(f, &s, o);
    }
    static const vt_opt group = VT_OPT_R_OR("PATTERN", vt_recipe, groups[0].weight_decay,
                                            "weight decay of the tensors whose names fit this shell pattern, such as "
                                            "\"*.bias\"; the first that "
                                            "fits counts",
                                            "weight_decay", 0, 0, 10);
    fputs("\ngroups: weight decay by tensor\n", f);
    key_help(f, &(vt_recipe_section){.name = "groups", .params = r}, &group);
    vt_recipe_free(r);
}
