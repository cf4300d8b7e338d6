/* SPDX-License-Identifier: MIT */
#include "eval/report/page.h"

#include <stdlib.h>
#include "base/hash.h"
#include "base/markup.h"

static const char style[] =
#include "page.inc" /* src/eval/report/page.css, a string for each line */
    ;

void vt_page_begin(FILE *f, const char *title) {
    fputs(VT_PAGE_START
          "\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
          "charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
          f);
    vt_html(f, title);
    fprintf(f, " - vitrine</title>\n<style>\n%s", style);
}

void vt_page_main(FILE *f) {
    fputs("</style></head><body><main>\n<p class=\"brow\">vitrine · adversarial robustness</p>\n", f);
}

void vt_page_end(FILE *f) { fputs("</main></body></html>\n", f); }

/* A colour of page.css. */
#define VAR(name)                                                                                                      \
    "var(-"                                                                                                            \
    "-" name ")"

void vt_page_blocks(FILE *f, const char *name, int width) {
    static const char *const rules[] = {"{display:block}",
                                        " thead{display:none}",
                                        " :is(caption,tbody,tr,th,td){display:block;text-align:left}",
                                        " tr{padding:6px 0;border-bottom:1px solid " VAR("line") "}",
                                        " tr>*{border:0;padding:2px 0;font-size:14px}",
                                        " tr>th{font-weight:650}",
                                        " td:empty{display:none}",
                                        " td::before{content:attr(data-of) \": \";color:" VAR("faint") "}"};
    fprintf(f, "@container (max-width:%dpx){", width);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) fprintf(f, ".%s%s", name, rules[i]);
    fputs("}\n", f);
}

void vt_page_paragraph(FILE *f, const char *kind, const char *words) {
    fprintf(f, "<p%s%s%s>", *kind ? " class=\"" : "", kind, *kind ? "\"" : "");
    vt_html(f, words);
    fputs("</p>\n", f);
}

vt_status vt_page_picture(FILE *f, const vt_image *im, vt_err *e) {
    uint8_t *png;
    size_t n;
    VT_TRY(vt_png_encode(&png, &n, im, "a picture of the page", e));
    char *base64 = malloc(4 * ((n + 2) / 3) + 1);
    vt_status s = base64 ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for a picture of %zu bytes", n);
    if (s == VT_OK) {
        vt_base64(base64, png, n);
        fprintf(f, "data:image/png;base64,%s", base64);
    }
    free(base64), free(png);
    return s;
}
