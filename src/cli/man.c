/* SPDX-License-Identifier: MIT */
/* Manual pages, from the tables that help is printed from: what a page says is what the program takes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "cli/help.h"
#include "base/version.h"
#include "train/recipe_keys.h"

/* ---- text that the formatter leaves as it is ---- */

/* One word, every '-' as the sign that a shell reads. */
static void print_escaped(FILE *f, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\\')
            fputs("\\e", f);
        else if (text[i] == '-')
            fputs("\\-", f);
        else
            fputc(text[i], f);
}

/* A word of running text: hyphens stay hyphens, options are exact. */
static void prose_word(FILE *f, const char *text, size_t n) {
    size_t quote = strspn(text, "'\"(`");
    if (quote < n && text[quote] == '-') return print_escaped(f, text, n);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\\')
            fputs("\\e", f);
        else
            fputc(text[i], f);
}

/* Running text in lines below 80 bytes, each sentence on a line of its own; an empty line ends a paragraph. */
static void print_prose(FILE *f, const char *text) {
    enum { WIDTH = 72 };
    size_t column = 0;
    for (const char *p = text; *p;) {
        size_t blank = strspn(p, " \n");
        bool paragraph = blank > 1 && memchr(p, '\n', blank) && memchr((char *)memchr(p, '\n', blank) + 1, '\n', blank);
        p += blank;
        if (!*p) break;
        size_t n = strcspn(p, " \n");
        bool sentence = column && strchr(".?!", p[-(ptrdiff_t)blank - 1]);
        if (paragraph && column)
            fputs("\n.Pp\n", f), column = 0;
        else if (column && (sentence || column + n >= WIDTH))
            fputc('\n', f), column = 0;
        if (column) fputc(' ', f), column++;
        if (!column && (*p == '.' || *p == '\'')) fputs("\\&", f);
        prose_word(f, p, n);
        column += n, p += n;
    }
    fputc('\n', f);
}

/* Lines as they are. */
static void print_literal(FILE *f, const char *text) {
    fputs(".Bd -literal -offset indent\n", f);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (*p == '.' || *p == '\'') fputs("\\&", f);
        print_escaped(f, p, n), fputc('\n', f);
        p += n + (p[n] == '\n');
    }
    fputs(".Ed\n", f);
}

/* ---- parts of a page ---- */

static void print_uppercase(FILE *f, const char *text) {
    for (; *text; text++) fputc(toupper((unsigned char)*text), f);
}

/* name: of a command, or NULL for the program's own page. */
static void print_header(FILE *f, const char *name, int section, const char *summary) {
    fputs(".Dd " VT_VERSION_DATE "\n.Dt VITRINE", f);
    if (name) fputc('-', f), print_uppercase(f, name);
    size_t n = strlen(summary);
    n -= n && strchr(".?!", summary[n - 1]); /* a page's name is no sentence */
    fprintf(f, " %d\n.Os\n.Sh NAME\n.Nm vitrine%s%s\n.Nd %.*s\n", section, name ? "-" : "", name ? name : "", (int)n,
            summary);
}

/* ".It Fl Fl eps Ar A/B"; a value's blanks and punctuation belong to it. */
static void print_option(FILE *f, const vt_arg *a) {
    fprintf(f, ".It Fl %s", strlen(a->name) == 1 ? "" : "Fl ");
    print_escaped(f, a->name, strlen(a->name));
    if (a->value) fputs(" Ar \"", f), print_escaped(f, a->value, strlen(a->value)), fputc('"', f);
    fputc('\n', f);
    print_prose(f, a->help);
}

static void print_options(FILE *f, const vt_command *c) {
    for (int i = 1; i <= VT_ABOUTS; i++) {
        bool begun = false;
        for (const vt_arg *a = c->args; a && a->name; a++) {
            if ((int)a->about != i % VT_ABOUTS) continue;
            if (!begun) fprintf(f, ".Ss %s\n.Bl -tag -width Ds\n", vt_help_titles[a->about]);
            print_option(f, a), begun = true;
        }
        if (begun) fputs(".El\n", f);
    }
}

static void print_exit_status(FILE *f) {
    fputs(".Sh EXIT STATUS\n0 where all went well, 1 where it failed, 2 for wrong usage.\n", f);
}

/* Every page but the one that it stands on (NULL: the program's own). */
static void see_also(FILE *f, const char *own) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    fputs(".Sh SEE ALSO\n", f);
    if (own) fputs(".Xr vitrine 1 ,\n", f);
    for (int i = 0; i < n && !own; i++) fprintf(f, ".Xr vitrine-%s 1 ,\n", all[i]->name);
    fprintf(f, ".Xr vitrine-%s\n", own && !strcmp(own, "recipe") ? "train 1" : "recipe 5");
}

/* ---- pages ---- */

void vt_man_all(FILE *f) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    print_header(f, NULL, 1, "adversarial robustness of Vision Transformers");
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Nm\n.Cm help\n.Op Fl Fl man\n.Op Ar command | Cm recipe\n"
          ".Nm\n.Fl Fl version\n.Sh DESCRIPTION\n.Nm\n"
          "loads a checkpoint of a Vision Transformer, or asks a model in another process,\n"
          "attacks it within a threat model, judges every broken image again, and prints\n"
          "accuracy without and under attack.\n"
          "Sizes of attacks are in units of pixels in [0,1].\n"
          "The commands are:\n.Bl -tag -width Ds\n",
          f);
    for (int i = 0; i < n; i++) {
        fprintf(f, ".It Cm %s\n", all[i]->name);
        print_prose(f, all[i]->summary);
    }
    fputs(".It Cm help\nthese words; with a command's name, that command's options; with\n.Cm recipe ,\n"
          "the keys of a training recipe; with\n.Fl Fl man ,\nthe same as a manual page.\n.El\n",
          f);
    print_exit_status(f);
    fputs(".Sh EXAMPLES\n", f);
    print_literal(f, "vitrine info weights/shapes10-vit\n"
                     "vitrine eval weights/shapes10-vit --data datasets/shapes10 \\\n  --images 0:50 --eps 4/255 "
                     "--attack pgd\n"
                     "vitrine list attacks");
    see_also(f, NULL);
}

void vt_man_command(FILE *f, const vt_command *c) {
    print_header(f, c->name, 1, c->summary);
    fprintf(f, ".Sh SYNOPSIS\n.Nm vitrine\n.Cm %s\n", c->name);
    if (c->operands) fprintf(f, ".Ar \"%s\"\n", c->operands);
    fputs(".Op Ar options\n.Sh DESCRIPTION\n", f);
    if (c->details)
        print_prose(f, c->details);
    else
        fprintf(f, "This is a command of\n.Xr vitrine 1 .\n");
    if (c->ranks) fputs(".Pp\n", f), print_prose(f, VT_HELP_RANKS);
    print_options(f, c);
    print_exit_status(f);
    if (c->examples[0]) fputs(".Sh EXAMPLES\n", f);
    for (int i = 0; c->examples[i]; i++) print_literal(f, c->examples[i]);
    see_also(f, c->name);
}

/* What a key may be, and what it is where nobody says. */
static void print_recipe_key(FILE *f, const vt_recipe_section *s, const vt_opt *o) {
    char value[VT_RECIPE_VALUE_MAX], range[200];
    vt_opt_value(o, s->params, value, sizeof value);
    fputs(".It Cm ", f);
    if (*s->name) fprintf(f, "%s.", s->name);
    fprintf(f, "%s\n", o->key);
    print_prose(f, o->help);
    fprintf(f, ".Pq %sdefault ", vt_recipe_limits(range, sizeof range, o));
    print_escaped(f, *value ? value : "empty", strlen(*value ? value : "empty"));
    fputc('\n', f);
}

vt_status vt_man_recipe(FILE *f, vt_err *e) {
    vt_recipe *r;
    vt_recipe_section s;
    VT_TRY(vt_recipe_new(&r, e));
    print_header(f, "recipe", 5, "training recipes of vitrine");
    fputs(".Sh DESCRIPTION\n", f);
    print_prose(
        f, "A recipe is YAML: keys at the top, or indented below the name of their section; --set attack.eps=8/255 "
           "sets one key after the file. Sizes are in pixel units and may be fractions; shares of the training lie "
           "in [0,1]. groups.PATTERN is the weight decay of the tensors whose names fit a shell pattern; the first "
           "that fits counts.");
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++) {
        bool reference = s.reference && strcmp(s.reference, "-");
        fprintf(f, ".Ss %s\n", *s.name ? s.name : "Keys at the top");
        print_prose(f, s.intro);
        if (reference) fputs(".Pp\n", f), print_prose(f, s.reference);
        if (!s.opts || !s.opts->key) continue;
        fputs(".Bl -tag -width Ds\n", f);
        for (const vt_opt *o = s.opts; o->key; o++) print_recipe_key(f, &s, o);
        fputs(".El\n", f);
    }
    vt_recipe_free(r);
    see_also(f, "recipe");
    return VT_OK;
}
