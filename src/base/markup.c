/* SPDX-License-Identifier: MIT */
#include "base/markup.h"

#include <stdarg.h>
#include <string.h>
#include "base/text.h"

/* ---- HTML ---- */

void vt_html(FILE *f, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const char *special = *p == '&'    ? "&amp;"
                              : *p == '<'  ? "&lt;"
                              : *p == '>'  ? "&gt;"
                              : *p == '"'  ? "&quot;"
                              : *p == '\'' ? "&#39;"
                                           : NULL;
        size_t n = *p < 0x80 ? 1 : vt_utf8_sequence(p);
        if (special)
            fputs(special, f);
        else if (!n || *p < 32 || *p == 127)
            fputc('?', f);
        else
            fwrite(p, 1, n, f);
        p += n ? n : 1;
    }
}

void vt_html_parts(FILE *f, const char *markup, ...) {
    va_list ap;
    va_start(ap, markup);
    for (const char *p = markup, *text; p; p = va_arg(ap, const char *)) {
        fputs(p, f);
        if (!(text = va_arg(ap, const char *))) break;
        vt_html(f, text);
    }
    va_end(ap);
}

/* ---- LaTeX, Markdown ---- */

typedef struct escape {
    char c;
    const char *text;
} escape;

/* Writes text with the characters of the list replaced, and control characters and what is no UTF-8 as '?'. */
static void write_escaped(FILE *f, const char *text, const escape *list) {
    for (size_t n; *text; text += n) {
        char c[5] = {0};
        const escape *x = list;
        n = *text & 0x80 ? vt_utf8_sequence((const unsigned char *)text) : 1;
        if (!n)
            n = 1, c[0] = '?';
        else
            memcpy(c, text, n), vt_text_plain(c, n, "", NULL);
        while (x->c && x->c != c[0]) x++;
        fputs(x->c ? x->text : c[0] == '?' ? "?" : c, f);
    }
}

void vt_tex(FILE *f, const char *text) {
    static const escape list[] = {{'&', "\\&"},
                                  {'%', "\\%"},
                                  {'$', "\\$"},
                                  {'#', "\\#"},
                                  {'_', "\\_"},
                                  {'{', "\\{"},
                                  {'}', "\\}"},
                                  {'~', "\\textasciitilde{}"},
                                  {'^', "\\textasciicircum{}"},
                                  {'\\', "\\textbackslash{}"},
                                  {'<', "\\textless{}"},
                                  {'>', "\\textgreater{}"},
                                  {'[', "{[}"}, /* these two would belong to the \\ of the line before */
                                  {'*', "{*}"},
                                  {0, NULL}};
    write_escaped(f, text, list);
}

void vt_md(FILE *f, const char *text) {
    static const escape list[] = {{'|', "\\|"}, {'\\', "\\\\"}, {'`', "\\`"}, {'*', "\\*"}, {'_', "\\_"},
                                  {'<', "\\<"}, {'>', "\\>"},   {'[', "\\["}, {']', "\\]"}, {'&', "\\&"},
                                  {'~', "\\~"}, {'$', "\\$"},   {0, NULL}};
    write_escaped(f, text, list);
}

void vt_md_code(FILE *f, const char *text) {
    static const escape list[] = {{'`', "'"}, {0, NULL}}; /* nothing else ends it */
    fputc('`', f), write_escaped(f, text, list), fputc('`', f);
}

/* ---- CSV ---- */

void vt_csv(FILE *f, const char *text) {
    static const escape list[] = {{'"', "\"\""}, {0, NULL}};
    const char *quote = strpbrk(text, ",;\"\r\n") ? "\"" : "";
    fputs(quote, f);
    if (*text && strchr("=+-@\t\r", *text)) fputc('\'', f);
    write_escaped(f, text, list);
    fputs(quote, f);
}
