/* SPDX-License-Identifier: MIT */
/* Patterns of tensor names: checking, matching, expanding. */
#include "checkpoint/rename.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_STARS = 2, MAX_DIGITS = 6 };

/* a i + c */
typedef struct linear {
    int64_t a, c;
    int letter; /* 0: 'a' */
} linear;

/* Reads 1 to MAX_DIGITS digits. Returns their end, or NULL. */
static const char *read_number(const char *p, int64_t *out) {
    int n = 0;
    for (*out = 0; isdigit((unsigned char)*p) && n <= MAX_DIGITS; n++) *out = 10 * *out + (*p++ - '0');
    return n && n <= MAX_DIGITS ? p : NULL;
}

/* Reads "{2i+1}" at p. Returns its end, or NULL if it is malformed. */
static const char *read_linear(const char *p, linear *x) {
    *x = (linear){.a = 1};
    if (isdigit((unsigned char)*++p) && !(p = read_number(p, &x->a))) return NULL;
    if (!islower((unsigned char)*p) || x->a < 1) return NULL;
    x->letter = *p++ - 'a';
    if (*p == '+' || *p == '-') {
        int64_t sign = *p == '-' ? -1 : 1;
        if (!(p = read_number(p + 1, &x->c))) return NULL;
        x->c *= sign;
    }
    return *p == '}' ? p + 1 : NULL;
}

vt_status vt_pattern_check(const char *pattern, const char *who, uint32_t *letters, int *stars, vt_err *e) {
    *letters = 0, *stars = 0;
    if (strlen(pattern) > VT_NAME_MAX)
        return vt_fail(e, VT_E_FORMAT, "%s: '%.40s...' is longer than %d characters", who, pattern, VT_NAME_MAX);
    for (const char *p = pattern; *p;) {
        linear x;
        const char *end = p + 1;
        if (*p == '{') end = read_linear(p, &x);
        if (!end || *p == '}')
            return vt_fail(e, VT_E_FORMAT, "%s: '%.80s': what stands in braces must be of the form {i} or {2i+1}", who,
                           pattern);
        if (*p == '{') *letters |= UINT32_C(1) << x.letter;
        if (*p == '*' && (p[1] == '*' || ++*stars > MAX_STARS))
            return vt_fail(e, VT_E_FORMAT, "%s: '%.80s' has more than %d stars, or two side by side", who, pattern,
                           MAX_STARS);
        p = end;
    }
    return VT_OK;
}

/* Reads a whole number at *s that is a i + c; binds i, or checks that it is bound so. false: it is not. */
static bool take_number(const char **s, const linear *x, vt_binding *b) {
    int64_t v;
    const char *end = read_number(*s, &v);
    if (!end || (**s == '0' && end > *s + 1)) return false; /* 01 is no number of a block */
    int64_t i = (v - x->c) / x->a;
    if (i < 0 || i * x->a + x->c != v) return false;
    uint32_t bit = UINT32_C(1) << x->letter;
    if (b->known & bit && b->number[x->letter] != i) return false;
    b->known |= bit, b->number[x->letter] = i, *s = end;
    return true;
}

/* Matches the rest of a pattern with the rest of a name; binds letters and stars in b (letters also where it returns
 * false). */
static bool match_pattern(const char *p, const char *s, vt_binding *b) {
    while (*p && *p != '*') {
        linear x;
        if (*p == '{') {
            p = read_linear(p, &x);
            if (!take_number(&s, &x, b)) return false;
        } else if (*p++ != *s++) {
            return false;
        }
    }
    if (!*p) return !*s;
    for (size_t n = 0;; n++) { /* the shortest text that lets the rest fit */
        vt_binding t = *b;
        t.star[t.stars].text = s, t.star[t.stars++].n = n;
        if (match_pattern(p + 1, s + n, &t)) {
            *b = t;
            return true;
        }
        if (!s[n]) return false;
    }
}

bool vt_pattern_match(const char *pattern, const char *name, vt_binding *b) {
    memset(b, 0, sizeof *b);
    return strlen(name) <= VT_NAME_MAX && match_pattern(pattern, name, b);
}

bool vt_pattern_expand(const char *pattern, const vt_binding *b, char out[VT_NAME_MAX + 1]) {
    size_t at = 0;
    int star = 0;
    for (const char *p = pattern; *p;) {
        char number[32];
        linear x;
        const char *text = p;
        size_t n = 1;
        if (*p == '{') {
            p = read_linear(p, &x);
            if (!(b->known >> x.letter & 1)) return false;
            int64_t v = x.a * b->number[x.letter] + x.c;
            if (v < 0) return false;
            text = number, n = (size_t)snprintf(number, sizeof number, "%lld", (long long)v);
        } else if (*p++ == '*') {
            if (star >= b->stars) return false;
            text = b->star[star].text, n = b->star[star++].n;
        }
        if (n > VT_NAME_MAX - at) return false;
        memcpy(out + at, text, n);
        at += n;
    }
    out[at] = 0;
    return true;
}
