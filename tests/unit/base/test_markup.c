/* SPDX-License-Identifier: MIT */
/* Text of files in LaTeX, Markdown, CSV and on a terminal: as it reads, and nothing that is obeyed there. */
#include "t.h"

#include <string.h>
#include "base/text.h"
#include "base/markup.h"

static void gives(void (*write)(FILE *, const char *), const char *in, const char *want) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    write(f, in);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

static void test_security_12_tex(void **state) {
    (void)state;
    gives(vt_tex, "PGD-20, 8/255", "PGD-20, 8/255");
    gives(vt_tex, "\\input{/etc/passwd}", "\\textbackslash{}input\\{/etc/passwd\\}");
    gives(vt_tex, "a & b # 5 % $x_1^2$ ~ <y>",
          "a \\& b \\# 5 \\% \\$x\\_1\\textasciicircum{}2\\$ \\textasciitilde{} "
          "\\textless{}y\\textgreater{}");
    gives(vt_tex, "two\nlines\r", "two?lines?"); /* a newline would end a comment */
    gives(vt_tex, "[5pt] *", "{[}5pt] {*}");
}

static void test_security_12_md(void **state) {
    (void)state;
    gives(vt_md, "~s~ $m$ &lt; \xE4\xB8\xAD\xE2\x80\xAE \xFF", "\\~s\\~ \\$m\\$ \\&lt; \xE4\xB8\xAD? ?");
    gives(vt_md, "a|b <img> ![x](u) `c` *d* _e_ \\", "a\\|b \\<img\\> !\\[x\\](u) \\`c\\` \\*d\\* \\_e\\_ \\\\");
    gives(vt_md, "one\n# two", "one?# two");
    gives(vt_md_code, "pgd:steps=3", "`pgd:steps=3`");
    gives(vt_md_code, "a`<b>``\n", "`a'<b>''?`");
}

static void test_security_12_csv(void **state) {
    (void)state;
    static const char *const plain[][2] = {{"pgd", "pgd"}, {"", ""}, {"a-b=c", "a-b=c"}, {"1 + 1", "1 + 1"}};
    for (size_t i = 0; i < T_COUNT(plain); i++) gives(vt_csv, plain[i][0], plain[i][1]);
    gives(vt_csv, "pgd, 8-bit", "\"pgd, 8-bit\"");
    gives(vt_csv, "say \"x\"", "\"say \"\"x\"\"\"");
    gives(vt_csv, "=1+1", "'=1+1");
    gives(vt_csv, "+1", "'+1");
    gives(vt_csv, "-1", "'-1");
    gives(vt_csv, "@SUM(1)", "'@SUM(1)");
    gives(vt_csv, "\t=1", "'?=1");
    gives(vt_csv, "=H(\"a\",\"b\")", "\"'=H(\"\"a\"\",\"\"b\"\")\"");
    gives(vt_csv, "a\n=b", "\"a?=b\"");
}

static void test_security_11_text(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"\033[2J\033]0;t\a", "?[2J?]0;t?"},
        {"one\ntwo\ttabs\r\x7f", "one?two?tabs??"},
        {"\x9b"
         "31m|\x80|\x9f|\xa0",
         "?31m|?|?|\xa0"},                                            /* C1 as bytes; Latin-1 letters stay */
        {"\xc2\x9b|\xc2\x80|\xc2\x9f|\xc2\xa0", "??|??|??|\xc2\xa0"}, /* C1 as UTF-8 */
        {"\xc3\x80 \xe2\x86\x92 \xf0\x9f\x98\x80", "\xc3\x80 \xe2\x86\x92 \xf0\x9f\x98\x80"}, /* bytes of letters */
        {"a\xe2\x80\xae|\xe2\x80\xaa|\xe2\x81\xa6|\xe2\x81\xa9|\xe2\x80\x8e\xe2\x80\x8f|\xd8\x9c",
         "a???|???|???|???|??????|??"}, /* marks of direction, by which a name is shown backwards */
        /* their neighbours stay */
        {"\xe2\x80\x8d|\xe2\x80\xa9|\xe2\x80\xaf|\xe2\x81\xa5|\xe2\x81\xaa|\xd8\x9b|\xe2\x82\xae",
         "\xe2\x80\x8d|\xe2\x80\xa9|\xe2\x80\xaf|\xe2\x81\xa5|\xe2\x81\xaa|\xd8\x9b|\xe2\x82\xae"},
        {"\xc3\033\x9b|\xe2\x86\x9b\x9b", "\xc3??|\xe2\x86\x9b?"}, /* a sequence that is broken off, one that ends */
    };
    char buf[100];
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        assert_string_equal(vt_text_line(buf, sizeof buf, cases[i][0]), cases[i][1]);
        assert_int_equal(vt_text_is_plain(cases[i][0]), !strcmp(cases[i][0], cases[i][1]));
        vt_err e = {0};
        vt_fail(&e, VT_E_IO, "%s", cases[i][0]);
        assert_string_equal(e.text, cases[i][1]);
    }
    for (size_t cut = 0; cut <= strlen(cases[5][0]); cut++) { /* in two pieces */
        vt_text_at at = {0};
        strcpy(buf, cases[5][0]);
        vt_text_plain(buf, cut, "", &at);
        vt_text_plain(buf + cut, strlen(buf) - cut, "", &at);
        assert_string_equal(buf, cases[5][1]);
    }
    strcpy(buf, "a\n\tb\r");
    vt_text_plain(buf, strlen(buf), "\n\t", NULL);
    assert_string_equal(buf, "a\n\tb?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_security_12_tex),
        cmocka_unit_test(test_security_12_md),
        cmocka_unit_test(test_security_12_csv),
        cmocka_unit_test(test_security_11_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
