/* SPDX-License-Identifier: MIT */
/* The text of a map: lines, words, and what they may say. */
#include "checkpoint/rename.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/opt.h"
#include "models/forms.h"

enum { MAX_TEXT = 1 << 20, MAX_LINES = 10000, MAX_WORDS = 2 * VT_RENAME_PARTS + 1, VALUE_MAX = 63 };

/* Lines that every map has: what PyTorch and timm keep beside the weights, and SpecFormer's vectors of MSVP. */
static const char standing[] = "drop *.num_batches_tracked      counts the batches of a BatchNorm\n"
                               "drop *.relative_position_index  follows from the window\n"
                               "drop *.attn_mask                follows from image and window\n"
                               "drop *.attn.Wq_*                vectors of MSVP's power iteration\n"
                               "drop *.attn.Wk_*                vectors of MSVP's power iteration\n"
                               "drop *.attn.Wv_*                vectors of MSVP's power iteration\n";

/* The keys that a set line may have besides those of models/forms, and what they are; ends at NULL. */
static const char *const keys[][2] = {
    {"heads", "attention heads"},
    {"ln_eps", "epsilon of LayerNorm and BatchNorm"},
    {"attn_scale", "factor on Q K^T: head, dim or a number"},
    {"attn", "attention variant"},
    {"mean", "of the input normalisation: three numbers, or one"},
    {"std", "of the input normalisation: three numbers, or one"},
    {"image", "side of the input in pixels, where no tensor tells it"},
    {"transform", "what is done to a picture first: short:248,bicubic,crop:224"},
    {NULL, NULL},
};

/* A line being read: which, and how errors call it. */
typedef struct line {
    int number; /* 0: of those that every map has */
    char who[120];
} line;

/* ---- set ---- */

/* Fails with VT_E_UNKNOWN for a set line's key, with the nearest one. */
static vt_status unknown_key(const char *key, const line *l, vt_err *e) {
    const char *known[64];
    size_t n = 0;
    int forms;
    for (; keys[n][0]; n++) known[n] = keys[n][0];
    const vt_form *f = vt_forms(&forms);
    for (int i = 0; i < forms && n < sizeof known / sizeof *known; i++) known[n++] = f[i].opt.key;
    const char *near = vt_nearest(key, known, n);
    return vt_fail(e, VT_E_UNKNOWN, "%s: '%.40s' is no key that can be set%s%s%s", l->who, key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Fails with VT_E_USAGE for a value that a key other than a form cannot have. */
static vt_status check_value(const char *key, const char *value, const line *l, vt_err *e) {
    double v[3];
    long long n;
    bool good;
    const char *must = "";
    if (!strcmp(key, "heads") || !strcmp(key, "image"))
        good = vt_parse_int(value, &n) && n >= 1 && n <= 16384, must = "a whole number from 1 to 16384";
    else if (!strcmp(key, "ln_eps"))
        good = vt_parse_real(value, v) && v[0] > 0, must = "a number above 0";
    else if (!strcmp(key, "attn_scale"))
        good = !strcmp(value, "head") || !strcmp(value, "dim") || (vt_parse_real(value, v) && v[0] > 0),
        must = "head, dim or a number above 0";
    else if (!strcmp(key, "mean") || !strcmp(key, "std"))
        good = vt_parse_triple(value, v), must = "three numbers separated by commas (or one for all channels)";
    else
        good = strlen(value) <= VALUE_MAX, must = "at most 63 characters"; /* transform, attn: others know them */
    return good ? VT_OK : vt_fail(e, VT_E_USAGE, "%s: %s is '%.60s', must be %s", l->who, key, value, must);
}

/* Reads a line of n words, set KEY VALUE [more of the value], and appends it to m->pairs. Fails for an unknown key, one
 * that is set already, or a value that it cannot have. */
static vt_status read_set(vt_rename *m, char **words, int n, const line *l, vt_err *e) {
    if (n < 3) return vt_fail(e, VT_E_FORMAT, "%s: must be of the form %s KEY VALUE", l->who, words[0]);
    char *key = words[1], *value = words[2];
    for (int i = 3; i < n; i++) memmove(value + strlen(value), words[i], strlen(words[i]) + 1); /* 0.5, 0.5, 0.5 */
    const vt_form *form = vt_form_find(key);
    int k = 0;
    while (!form && keys[k][0] && strcmp(keys[k][0], key)) k++;
    if (!form && !keys[k][0]) return unknown_key(key, l, e);
    if (vt_rename_value(m, key)) return vt_fail(e, VT_E_FORMAT, "%s: sets %s a second time", l->who, key);
    vt_config unused = {0};
    VT_TRY(form ? vt_form_set(&unused, form, value, l->who, e) : check_value(key, value, l, e));
    const bool proven = !strcmp(words[0], "is");
    m->pairs[m->n_pairs++] = (vt_rename_pair){key, value, proven};
    m->proves = m->proves || proven;
    return VT_OK;
}

/* ---- names ---- */

/* Reads n words "a + b + c" and appends the names to out; *count: grows by how many. VT_E_FORMAT: no such sum. */
static vt_status read_sum(const char **out, int *count, char **words, int n, const line *l, vt_err *e) {
    for (int i = 0; i < n; i++)
        if ((i % 2 == 1) != !strcmp(words[i], "+") || (i == n - 1 && i % 2))
            return vt_fail(e, VT_E_FORMAT, "%s: names must be joined by + (near '%.60s')", l->who, words[i]);
    if (n < 1 || n > 2 * VT_RENAME_PARTS - 1)
        return vt_fail(e, VT_E_FORMAT, "%s: must have from 1 to %d names on each side", l->who, VT_RENAME_PARTS);
    for (int i = 0; i < n; i += 2) out[(*count)++] = words[i];
    return VT_OK;
}

bool vt_rename_zero(const vt_rename_rule *r, int part) { return part && !strcmp(r->theirs[part], "0"); }

/* Checks a rule's names: every name on the left has the same letters and stars, and the right side no others, so that
 * each binding is known from any one of the tensors. VT_E_FORMAT: not so. */
static vt_status check_patterns(const vt_rename_rule *r, const line *l, vt_err *e) {
    uint32_t letters, first = 0;
    int stars, most = 0;
    for (int i = 0; i < r->from; i++) {
        if (vt_rename_zero(r, i)) continue;
        VT_TRY(vt_pattern_check(r->theirs[i], l->who, &letters, &stars, e));
        if (i && (letters != first || stars != most))
            return vt_fail(e, VT_E_FORMAT, "%s: '%.60s' and '%.60s' must have the same letters in braces and stars",
                           l->who, r->theirs[0], r->theirs[i]);
        first = letters, most = stars;
    }
    for (int i = 0; i < r->to; i++) {
        VT_TRY(vt_pattern_check(r->ours[i], l->who, &letters, &stars, e));
        if (letters & ~first || stars > most)
            return vt_fail(e, VT_E_FORMAT, "%s: '%.60s' has a letter or star that the left side has not", l->who,
                           r->ours[i]);
    }
    return VT_OK;
}

/* Reads a line of n words, theirs -> timm, and appends it to m->rules. VT_E_FORMAT: it is none, or joins and splits at
 * once. */
static vt_status read_rule(vt_rename *m, char **words, int n, const line *l, vt_err *e) {
    vt_rename_rule *r = &m->rules[m->count++];
    int arrow = 0;
    r->line = l->number;
    while (arrow < n && strcmp(words[arrow], "->")) arrow++;
    if (arrow == n)
        return vt_fail(e, VT_E_FORMAT, "%s: '%.60s' begins neither 'theirs -> timm' nor 'drop' nor 'set'", l->who,
                       words[0]);
    VT_TRY(read_sum(r->theirs, &r->from, words, arrow, l, e));
    VT_TRY(read_sum(r->ours, &r->to, words + arrow + 1, n - arrow - 1, l, e));
    if (r->from > 1 && r->to > 1)
        return vt_fail(e, VT_E_FORMAT, "%s: joins and splits at once; one of the sides must be one name", l->who);
    return check_patterns(r, l, e);
}

/* Reads the rest of a line, drop PATTERN [why], and appends it to m->rules. VT_E_FORMAT: no pattern. */
static vt_status read_drop(vt_rename *m, char *text, const line *l, vt_err *e) {
    vt_rename_rule *r = &m->rules[m->count++];
    text += strspn(text, " \t");
    size_t n = strcspn(text, " \t");
    if (!n) return vt_fail(e, VT_E_FORMAT, "%s: must be of the form drop NAME WHY", l->who);
    r->why = text[n] ? text + n + 1 + strspn(text + n + 1, " \t") : "";
    if (!*r->why) r->why = "the map drops it";
    text[n] = 0;
    *r = (vt_rename_rule){.line = l->number, .from = 1, .theirs = {text}, .why = r->why};
    return check_patterns(r, l, e);
}

/* ---- lines ---- */

/* Cuts a comment and the blanks around a line. Returns its beginning. */
static char *strip_comment_and_blanks(char *text) {
    char *hash = text;
    while ((hash = strchr(hash, '#')) && hash > text && hash[-1] != ' ' && hash[-1] != '\t') hash++;
    if (hash) *hash = 0; /* a comment begins the line or follows a blank */
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1])) text[--n] = 0;
    return text;
}

/* Fails with VT_E_USAGE if one of n words is a blank (?) that vitrine map left. */
static vt_status refuse_blank(char *const *words, int n, const line *l, vt_err *e) {
    bool set = !strcmp(words[0], "set") || !strcmp(words[0], "is");
    int i = 0;
    while (i < n && strcmp(words[i], "?")) i++;
    if (i == n) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: '%.80s' is left blank (?): write %s in place of the ?", l->who,
                   words[set ? 1 : 0], set ? "a value" : "timm's name, or drop the tensor,");
}

/* Reads one line of a map, which is cut up, into m's rules or pairs; an empty one or a comment adds nothing. */
static vt_status read_line(vt_rename *m, char *text, const line *l, vt_err *e) {
    char *words[2 * MAX_WORDS + 2] = {text}, *save = NULL;
    int n = 0;
    text = strip_comment_and_blanks(text);
    if (!*text) return VT_OK;
    if (!strncmp(text, "drop", 4) && strchr(" \t", text[4])) return read_drop(m, text + 4, l, e);
    for (char *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
        if (n == sizeof words / sizeof *words) return vt_fail(e, VT_E_FORMAT, "%s: has more than %d words", l->who, n);
        words[n++] = w;
    }
    VT_TRY(refuse_blank(words, n, l, e));
    bool named = n > 1 && !strcmp(words[1], "->"); /* a tensor of such a name */
    if (!strcmp(words[0], "set") || (!strcmp(words[0], "is") && !named)) return read_set(m, words, n, l, e);
    bool maybe = !strcmp(words[0], "maybe") && !named;
    m->rules[m->count].maybe = maybe, m->inexact = m->inexact || maybe;
    return read_rule(m, words + maybe, n - maybe, l, e);
}

/* Reads all lines of text, which is cut up; numbered: they count from 1, else they are those that every map has. */
static vt_status read_lines(vt_rename *m, char *text, bool numbered, vt_err *e) {
    for (int i = 1; text; i++) {
        char *next = strchr(text, '\n');
        line l = {.number = numbered ? i : 0};
        if (next) *next++ = 0;
        snprintf(l.who, sizeof l.who, "%.90s: line %d", m->who, i);
        VT_TRY(read_line(m, text, &l, e));
        text = next;
    }
    return VT_OK;
}

vt_status vt_rename_parse(vt_rename **out, const char *text, size_t n, const char *who, vt_err *e) {
    *out = NULL;
    size_t lines = 16;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
        if (!text[i]) return vt_fail(e, VT_E_FORMAT, "%s: holds a NUL at byte %zu: is no text", who, i);
    }
    if (n > MAX_TEXT || lines > MAX_LINES)
        return vt_fail(e, VT_E_FORMAT, "%s: has %zu bytes in %zu lines, at most %d in %d are read", who, n, lines - 15,
                       MAX_TEXT, MAX_LINES - 16);
    const size_t names = strlen(who) + 1, pairs = lines * sizeof(vt_rename_pair),
                 rules = lines * sizeof(vt_rename_rule);
    vt_rename *m = calloc(1, sizeof *m + rules + pairs + names + sizeof standing + n + 1);
    if (!m) return vt_fail(e, VT_E_MEMORY, "%s: no memory", who);
    m->rules = (vt_rename_rule *)(m + 1);
    m->pairs = (vt_rename_pair *)(m->rules + lines);
    m->who = memcpy(m->pairs + lines, who, names);
    char *text_of_all = memcpy((char *)(m->pairs + lines) + names, standing, sizeof standing),
         *own = memcpy(text_of_all + sizeof standing, text, n);
    vt_status s = read_lines(m, text_of_all, false, e);
    if (s == VT_OK) s = read_lines(m, own, true, e);
    if (s != VT_OK) {
        free(m);
        return s;
    }
    *out = m;
    return VT_OK;
}

/* Returns the set or is line of a key, or NULL. */
static const vt_rename_pair *find_pair(const vt_rename *m, const char *key) {
    for (int i = 0; i < m->n_pairs; i++)
        if (!strcmp(m->pairs[i].key, key)) return &m->pairs[i];
    return NULL;
}

const char *vt_rename_value(const vt_rename *m, const char *key) {
    const vt_rename_pair *p = find_pair(m, key);
    return p ? p->value : NULL;
}

bool vt_rename_proven(const vt_rename *m, const char *key) {
    const vt_rename_pair *p = find_pair(m, key);
    return p && p->proven;
}
