/* SPDX-License-Identifier: MIT */
#include "spec/formula.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

/* A declared variable: X_index or Y_index. */
typedef struct variable {
    bool output;
    int index;
} variable;

typedef struct term {
    variable v;
    double c;
} term;

/* A linear expression: a constant and terms [at, at + n) of the stack. */
typedef struct linear {
    double c;
    size_t at, n;
} linear;

typedef struct parser {
    vt_formula *f;
    const char *p, *end, *token; /* token: where the last one began */
    size_t length;               /* of the last token; 0: the file's end */
    int line, depth;
    term *stack;
    size_t n_stack, room_stack, room_bounds, room_rows, room_terms, atoms;
    uint8_t *declared[2]; /* [count] 1: inputs, outputs */
    size_t room[2];
} parser;

/* Fails with VT_E_FORMAT: "PATH: line L: ...". */
__attribute__((format(printf, 3, 4))) static vt_status fail_line(const parser *p, vt_err *e, const char *format, ...) {
    char what[600], plain[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    return vt_fail(e, VT_E_FORMAT, "%s: line %d: %s", p->f->path, p->line, vt_text_line(plain, sizeof plain, what));
}

static vt_status fail_memory(const parser *p, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", p->f->path);
}

bool vt_formula_grow(vt_heap *h, void *array, size_t n, size_t *room, size_t item) {
    if (n < *room) return true;
    void *old, *wider;
    memcpy(&old, array, sizeof old);
    const size_t more = *room ? 2 * *room : 4;
    if (!(wider = vt_heap_take(h, more, item))) return false;
    if (n) memcpy(wider, old, n * item);
    memcpy(array, &wider, sizeof wider);
    *room = more;
    return true;
}

/* ---- tokens: ( ) and words ---- */

/* Moves p->token, length and line to the next token, past blanks and comments; length 0: the file's end. */
static void next_token(parser *p) {
    while (p->p < p->end && (strchr(" \t\r\n\f", *p->p) || *p->p == ';') && *p->p) {
        if (*p->p == ';')
            while (p->p < p->end && *p->p != '\n') p->p++;
        else if (*p->p++ == '\n')
            p->line++;
    }
    p->token = p->p;
    if (p->p < p->end && (*p->p == '(' || *p->p == ')'))
        p->p++;
    else
        while (p->p < p->end && (!*p->p || !strchr(" \t\r\n\f();", *p->p))) p->p++;
    p->length = (size_t)(p->p - p->token);
}

/* Is the last token this text? */
static bool token_is(const parser *p, const char *text) {
    return p->length == strlen(text) && !memcmp(p->token, text, p->length);
}

/* Writes the token in quotes, for sentences, and returns buf; "the file's end" if there is none. */
static const char *token_text(const parser *p, char buf[64]) {
    snprintf(buf, 64, p->length ? "'%.*s'" : "the file's end", p->length > 40 ? 40 : (int)p->length, p->token);
    return buf;
}

/* Moves to the next token; VT_E_FORMAT unless it is text. where: the rule, for the sentence. */
static vt_status expect_token(parser *p, const char *text, const char *where, vt_err *e) {
    char got[64];
    next_token(p);
    return token_is(p, text) ? VT_OK
                             : fail_line(p, e, "%s stands where '%s' must: %s", token_text(p, got), text, where);
}

/* Sets *out to the token as a decimal number, all of it: 0.5, -1, 2.5e-3; VT_E_FORMAT: it is none, or not finite. */
static vt_status token_number(const parser *p, double *out, vt_err *e) {
    char text[400], got[64];
    const char *t = text;
    size_t digits = 0, n;
    if (p->length >= sizeof text) return fail_line(p, e, "a number of more than %zu letters", sizeof text - 1);
    memcpy(text, p->token, p->length), text[p->length] = 0;
    t += *t == '-' || *t == '+';
    t += n = strspn(t, "0123456789"), digits += n;
    if (*t == '.') t++, t += n = strspn(t, "0123456789"), digits += n;
    if (digits && (*t == 'e' || *t == 'E')) {
        t++, t += *t == '-' || *t == '+';
        t += n = strspn(t, "0123456789");
        if (!n) digits = 0;
    }
    if (!digits || *t || strlen(text) != p->length)
        return fail_line(p, e, "%s is no decimal number and no declared variable", token_text(p, got));
    *out = strtod(text, NULL);
    return isfinite(*out) ? VT_OK : fail_line(p, e, "%s is beyond the largest double", token_text(p, got));
}

/* Sets *v if the token is X_N or Y_N, without leading zeros; false: it is not. */
static bool token_variable(const parser *p, variable *v) {
    if (p->length < 3 || p->length > 11 || (*p->token != 'X' && *p->token != 'Y') || p->token[1] != '_') return false;
    long long n = 0;
    for (size_t i = 2; i < p->length; i++) {
        if (p->token[i] < '0' || p->token[i] > '9') return false;
        n = 10 * n + p->token[i] - '0';
    }
    if ((p->token[2] == '0' && p->length > 3) || n > INT32_MAX) return false;
    *v = (variable){*p->token == 'Y', (int)n};
    return true;
}

/* ---- expressions ---- */

/* Pushes the term 1 v on the stack; VT_E_FORMAT: v is not declared. */
static vt_status push_term(parser *p, variable v, vt_err *e) {
    char got[64];
    if ((size_t)v.index >= p->room[v.output] || !p->declared[v.output][v.index])
        return fail_line(p, e, "%s is not declared above", token_text(p, got));
    if (!vt_formula_grow(&p->f->heap, &p->stack, p->n_stack, &p->room_stack, sizeof *p->stack))
        return fail_memory(p, e);
    p->stack[p->n_stack++] = (term){v, 1};
    return VT_OK;
}

/* Multiplies l, constant and terms on the stack, by `by`. */
static void scale_linear(parser *p, linear *l, double by) {
    l->c *= by;
    for (size_t i = 0; i < l->n; i++) p->stack[l->at + i].c *= by;
}

/* Replaces *a by a op b (+ - * /), whose terms follow those of a on the stack; changes b too. VT_E_FORMAT: not linear,
 * or a division by 0. */
static vt_status join_linear(parser *p, char op, linear *a, linear *b, vt_err *e) {
    if (op == '-') scale_linear(p, b, -1);
    if (op == '+' || op == '-') {
        a->c += b->c, a->n += b->n;
        return VT_OK;
    }
    if ((op == '*' && a->n && b->n) || (op == '/' && b->n))
        return fail_line(p, e, "(%c ...) of two variables is not linear; VNN-LIB 1.0's conditions are", op);
    if (op == '/' && b->c == 0) return fail_line(p, e, "a division by 0");
    if (op == '*' && b->n) {
        scale_linear(p, b, a->c);
        *a = *b;
        return VT_OK;
    }
    if (op == '*')
        scale_linear(p, a, b->c);
    else { /* not by the reciprocal, which rounds twice */
        a->c /= b->c;
        for (size_t i = 0; i < a->n; i++) p->stack[a->at + i].c /= b->c;
    }
    return VT_OK;
}

static vt_status read_linear(parser *p, linear *out, vt_err *e);

/* Reads what follows "(": an operator, its operands and ")", into *out, with terms on the stack. VT_E_FORMAT: no
 * operator of + - * /, or too few operands. */
static vt_status read_operation(parser *p, linear *out, vt_err *e) {
    char got[64];
    next_token(p);
    const char op = p->length == 1 ? *p->token : 0;
    if (!op || !strchr("+-*/", op))
        return fail_line(p, e, "%s is no operator of a linear expression (+ - * /)", token_text(p, got));
    int n = 0;
    for (;; n++) {
        linear x;
        const char *before = p->p;
        const int line = p->line;
        next_token(p);
        if (token_is(p, ")")) break;
        p->p = before, p->line = line;
        VT_TRY(read_linear(p, n ? &x : out, e));
        if (n) VT_TRY(join_linear(p, op, out, &x, e));
    }
    if (n == 1 && op == '-') scale_linear(p, out, -1);
    if (n < (op == '-' ? 1 : 2))
        return fail_line(p, e, "(%c ...) has %d operand%s, which is too few", op, n, n == 1 ? "" : "s");
    return VT_OK;
}

/* Reads a linear expression into *out, its terms pushed on the stack; VT_E_FORMAT: no such thing, too deep, or not
 * finite. */
static vt_status read_linear(parser *p, linear *out, vt_err *e) {
    variable v;
    char got[64];
    *out = (linear){0, p->n_stack, 0};
    next_token(p);
    if (token_is(p, "(")) {
        if (++p->depth > VT_SPEC_DEPTH)
            return fail_line(p, e, "more than %d parentheses are open, which is the limit", VT_SPEC_DEPTH);
        VT_TRY(read_operation(p, out, e));
        p->depth--;
        return isfinite(out->c) ? VT_OK : fail_line(p, e, "a constant beyond the largest double");
    }
    if (!p->length || token_is(p, ")")) return fail_line(p, e, "%s stands where a number must", token_text(p, got));
    if (!token_variable(p, &v)) return token_number(p, &out->c, e);
    out->n = 1;
    return push_term(p, v, e);
}

/* ---- comparisons ---- */

/* Appends a comparison to a; VT_E_FORMAT beyond VT_SPEC_ATOMS of all. */
static vt_status add_item(parser *p, vt_formula_and *a, int item, vt_err *e) {
    if (++p->atoms > VT_SPEC_ATOMS)
        return fail_line(p, e, "more than 2^26 comparisons, counted as often as they are combined");
    if (!vt_formula_grow(&p->f->heap, &a->items, a->n, &a->room, sizeof *a->items)) return fail_memory(p, e);
    a->items[a->n++] = item;
    return VT_OK;
}

/* Returns v, strict: the next double below it. */
static double below(double v, bool strict) { return strict ? nextafter(v, -INFINITY) : v; }

/* Appends to f->bounds and to a the bound x <= limit for c = 1, -x <= limit for c = -1; strict: the next double
 * below. */
static vt_status add_bound(parser *p, vt_formula_and *a, term x, double limit, bool strict, vt_err *e) {
    vt_formula *f = p->f;
    if (!vt_formula_grow(&f->heap, &f->bounds, f->n_bounds, &p->room_bounds, sizeof *f->bounds))
        return fail_memory(p, e);
    const double v = below(limit, strict);
    f->bounds[f->n_bounds] = (vt_formula_bound){x.v.index, p->line, x.c > 0, x.c > 0 ? v : -v};
    return add_item(p, a, (int)f->n_bounds++, e);
}

/* Appends to f->rows, f->terms and a the stack's terms <= limit; strict: the next double below. VT_E_FORMAT: a factor
 * not finite, or too many. */
static vt_status add_row(parser *p, vt_formula_and *a, double limit, bool strict, vt_err *e) {
    vt_formula *f = p->f;
    if (!vt_formula_grow(&f->heap, &f->rows, f->n_rows, &p->room_rows, sizeof *f->rows)) return fail_memory(p, e);
    f->rows[f->n_rows] = (vt_spec_row){(int)f->n_terms, (int)p->n_stack, below(limit, strict), p->line};
    for (const term *t = p->stack; t < p->stack + p->n_stack; t++) {
        if (!isfinite(t->c)) return fail_line(p, e, "a factor beyond the largest double");
        if (f->n_terms == VT_SPEC_ATOMS) return fail_line(p, e, "more than 2^26 terms");
        if (!vt_formula_grow(&f->heap, &f->terms, f->n_terms, &p->room_terms, sizeof *f->terms))
            return fail_memory(p, e);
        f->terms[f->n_terms++] = (vt_spec_term){t->v.index, t->c};
    }
    return add_item(p, a, -1 - (int)f->n_rows++, e);
}

/* Adds to a the comparison "terms on the stack <= limit": a row of outputs, or the bound of one input. */
static vt_status add_comparison(parser *p, vt_formula_and *a, double limit, bool strict, vt_err *e) {
    size_t outputs = 0;
    for (size_t i = 0; i < p->n_stack; i++) outputs += p->stack[i].v.output;
    if (outputs) return add_row(p, a, limit, strict, e);
    return add_bound(p, a, *p->stack, limit, strict, e);
}

/* VT_E_FORMAT unless the stack has terms of outputs alone, or one input +-1 that is compared with a number (x, y: the
 * sides). */
static vt_status check_sides(const parser *p, const linear *x, const linear *y, vt_err *e) {
    const term *t = p->stack;
    size_t outputs = 0;
    for (size_t i = 0; i < p->n_stack; i++) outputs += t[i].v.output;
    if (!p->n_stack) return fail_line(p, e, "a comparison of numbers alone");
    if (outputs == p->n_stack) return VT_OK;
    if (outputs)
        return fail_line(p, e, "an output is compared with an input; VNN-LIB 1.0 bounds inputs by numbers alone");
    if (p->n_stack > 1 || fabs(t->c) != 1 || (x->n ? x->c : y->c) != 0)
        return fail_line(p, e, "X_%d is bounded by more than a number; inputs must lie in a box", t->v.index);
    return VT_OK;
}

/* Reads what follows "(" and the relation, and adds to a: x - y <= 0, y - x <= 0, or both ("="). */
static vt_status read_comparison(parser *p, vt_formula_and *a, char relation, bool strict, vt_err *e) {
    linear x, y;
    p->n_stack = 0;
    VT_TRY(read_linear(p, &x, e));
    VT_TRY(read_linear(p, &y, e));
    VT_TRY(expect_token(p, ")", "a comparison has two sides", e));
    VT_TRY(check_sides(p, &x, &y, e));
    for (size_t i = x.n; i < p->n_stack; i++) p->stack[i].c = -p->stack[i].c;
    if (relation != '>') VT_TRY(add_comparison(p, a, y.c - x.c, strict, e));
    for (size_t i = 0; i < p->n_stack; i++) p->stack[i].c = -p->stack[i].c;
    return relation == '<' ? VT_OK : add_comparison(p, a, x.c - y.c, strict, e);
}

/* ---- formulas ---- */

/* Appends *a to o's cases; VT_E_FORMAT: more than VT_SPEC_CASES. */
static vt_status push_and(parser *p, vt_formula_or *o, const vt_formula_and *a, vt_err *e) {
    if (o->n == VT_SPEC_CASES) return fail_line(p, e, "more than %d cases", VT_SPEC_CASES);
    if (!vt_formula_grow(&p->f->heap, &o->ands, o->n, &o->room, sizeof *o->ands)) return fail_memory(p, e);
    o->ands[o->n++] = *a;
    return VT_OK;
}

/* Appends the items of `from` to `to`. */
static vt_status append_items(parser *p, vt_formula_and *to, const vt_formula_and *from, vt_err *e) {
    for (size_t i = 0; i < from->n; i++) VT_TRY(add_item(p, to, from->items[i], e));
    return VT_OK;
}

/* Replaces *a by a and b: every pair of their cases; VT_E_FORMAT beyond VT_SPEC_CASES. */
static vt_status combine_parts(parser *p, vt_formula_or *a, const vt_formula_or *b, vt_err *e) {
    vt_formula_or both = {.line = a->line};
    if (b->n == 1) {
        for (size_t i = 0; i < a->n; i++) VT_TRY(append_items(p, &a->ands[i], &b->ands[0], e));
        return VT_OK;
    }
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++) {
            vt_formula_and pair = {0};
            VT_TRY(append_items(p, &pair, &a->ands[i], e));
            VT_TRY(append_items(p, &pair, &b->ands[k], e));
            VT_TRY(push_and(p, &both, &pair, e));
        }
    *a = both;
    return VT_OK;
}

static vt_status read_formula(parser *p, vt_formula_or *out, vt_err *e);

/* Reads what follows "(and" or "(or", up to its ")", into *out; VT_E_FORMAT: nothing, or too many cases. */
static vt_status read_operands(parser *p, vt_formula_or *out, bool is_and, vt_err *e) {
    for (int n = 0;; n++) {
        vt_formula_or o;
        const char *before = p->p;
        const int line = p->line;
        next_token(p);
        if (token_is(p, ")"))
            return n ? VT_OK
                     : fail_line(p, e, "an empty (%s), which is always %s", is_and ? "and" : "or",
                                 is_and ? "true" : "false");
        p->p = before, p->line = line;
        VT_TRY(read_formula(p, n ? &o : out, e));
        if (n && is_and) VT_TRY(combine_parts(p, out, &o, e));
        for (size_t i = 0; n && !is_and && i < o.n; i++) VT_TRY(push_and(p, out, &o.ands[i], e));
    }
}

/* Reads a condition into *out, as cases of which one must hold; VT_E_FORMAT. */
static vt_status read_formula(parser *p, vt_formula_or *out, vt_err *e) {
    char got[64];
    VT_TRY(expect_token(p, "(", "a condition begins so", e));
    next_token(p);
    *out = (vt_formula_or){.line = p->line};
    const char relation = *p->token;
    if (++p->depth > VT_SPEC_DEPTH)
        return fail_line(p, e, "more than %d parentheses are open, which is the limit", VT_SPEC_DEPTH);
    if (token_is(p, "and") || token_is(p, "or")) {
        VT_TRY(read_operands(p, out, relation == 'a', e));
    } else if (token_is(p, "<=") || token_is(p, ">=") || token_is(p, "<") || token_is(p, ">") || token_is(p, "=")) {
        vt_formula_and a = {0};
        VT_TRY(read_comparison(p, &a, relation, p->length == 1 && relation != '=', e));
        VT_TRY(push_and(p, out, &a, e));
    } else {
        return fail_line(p, e, "%s is no condition that is read (and, or, <=, >=, <, >, =)", token_text(p, got));
    }
    p->depth--;
    return VT_OK;
}

/* ---- commands ---- */

/* Reads the rest of a declare-const: sets p->declared and f's inputs or outputs. VT_E_FORMAT: another sort, twice, or
 * an index that cannot be. */
static vt_status read_declaration(parser *p, vt_err *e) {
    variable v;
    char got[64];
    next_token(p);
    if (!token_variable(p, &v))
        return fail_line(p, e, "%s is declared, must be X_0, X_1, ... or Y_0, Y_1, ...", token_text(p, got));
    const size_t most = v.output ? VT_SPEC_OUTPUTS : VT_SPEC_INPUTS;
    if ((size_t)v.index >= most)
        return fail_line(p, e, "%s is declared, there may be %zu at most", token_text(p, got), most);
    /* a declaration takes 25 letters: an index beyond their number leaves others out, and takes no memory for them */
    if ((size_t)v.index > (size_t)(p->end - p->f->text) / 25)
        return fail_line(p, e, "%s is declared, but not all of a lower number", token_text(p, got));
    uint8_t **list = &p->declared[v.output];
    while ((size_t)v.index >= p->room[v.output])
        if (!vt_formula_grow(&p->f->heap, list, p->room[v.output], &p->room[v.output], 1)) return fail_memory(p, e);
    if ((*list)[v.index]) return fail_line(p, e, "%s is declared twice", token_text(p, got));
    (*list)[v.index] = 1;
    next_token(p);
    if (!token_is(p, "Real")) return fail_line(p, e, "sort %s, must be Real", token_text(p, got));
    int *count = v.output ? &p->f->outputs : &p->f->inputs;
    if (v.index >= *count) *count = v.index + 1;
    return expect_token(p, ")", "a declaration ends so", e);
}

/* Reads the rest of an assert: adds it to f->always if it is one case, else to f->choices. */
static vt_status read_assertion(parser *p, vt_err *e) {
    vt_formula *f = p->f;
    vt_formula_or o;
    VT_TRY(read_formula(p, &o, e));
    VT_TRY(expect_token(p, ")", "an assertion ends so", e));
    if (o.n == 1) return append_items(p, &f->always, &o.ands[0], e);
    if (!vt_formula_grow(&f->heap, &f->choices, f->n_choices, &f->room_choices, sizeof *f->choices))
        return fail_memory(p, e);
    f->choices[f->n_choices++] = o;
    return VT_OK;
}

/* Reads declare-const and assert until the file's end; VT_E_FORMAT: another command, or a wrong one. */
static vt_status read_commands(parser *p, vt_err *e) {
    char got[64];
    for (;;) {
        next_token(p);
        if (!p->length) return VT_OK;
        if (!token_is(p, "("))
            return fail_line(p, e, "%s stands where a command must begin with '('", token_text(p, got));
        next_token(p);
        if (token_is(p, "declare-const"))
            VT_TRY(read_declaration(p, e));
        else if (token_is(p, "assert"))
            VT_TRY(read_assertion(p, e));
        else if (token_is(p, "vnnlib-version") || token_is(p, "declare-network"))
            return fail_line(p, e, "%s is of VNN-LIB 2.0; 1.0 is read", token_text(p, got));
        else
            return fail_line(p, e, "%s is no command of VNN-LIB 1.0 (declare-const, assert)", token_text(p, got));
    }
}

/* VT_E_FORMAT unless X and Y are declared from 0 to their largest number. */
static vt_status check_declared(const parser *p, vt_err *e) {
    const vt_formula *f = p->f;
    for (int k = 0; k < 2; k++) {
        const int n = k ? f->outputs : f->inputs;
        if (!n) return vt_fail(e, VT_E_FORMAT, "%s: declares no %s", f->path, k ? "output Y_0" : "input X_0");
        for (int i = 0; i < n; i++)
            if (!p->declared[k][i])
                return vt_fail(e, VT_E_FORMAT, "%s: declares %c_%d, but not %c_%d", f->path, "XY"[k], n - 1, "XY"[k],
                               i);
    }
    return VT_OK;
}

vt_status vt_formula_read(vt_formula *f, vt_err *e) {
    parser p = {.f = f, .p = f->text, .end = f->text + f->n, .line = 1};
    if (f->n > VT_SPEC_BYTES)
        return vt_fail(e, VT_E_FORMAT, "%s: has %zu bytes, at most %zu are read", f->path, f->n, VT_SPEC_BYTES);
    VT_TRY(read_commands(&p, e));
    return check_declared(&p, e);
}
