/* SPDX-License-Identifier: MIT */
/* Running gnuplot, and the figure of a training log. src/cli is not in the library: its objects are linked beside. A
 * fake gnuplot in PATH keeps the script it is given; where the real one is installed, it must accept what we write. */
#include "t.h"

#include <glob.h>
#include "cli/plot.h"

#include <sys/stat.h>
#include <unistd.h>

static char dir[64], *path_before;

static const char *in_dir(const char *name) {
    static char out[4][128];
    static int next;
    char *p = out[next++ % 4];
    snprintf(p, sizeof out[0], "%s/%s", dir, name);
    return p;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static char *get(const char *name) {
    static char text[200000];
    FILE *f = fopen(in_dir(name), "r");
    if (!f) fail_msg("%s is missing", in_dir(name));
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static bool there(const char *name) { return access(in_dir(name), F_OK) == 0; }

/* What is being written, or what a failure left. */
static bool half_there(void) {
    glob_t found;
    bool any = glob(in_dir(".vitrine-*"), 0, NULL, &found) == 0;
    if (any) globfree(&found);
    return any;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++) n++;
    return n;
}

/* gnuplot is a shell script with this body; without one there is none in PATH. */
static void fake(const char *body) {
    char text[1000];
    unlink(in_dir("gnuplot"));
    setenv("PATH", dir, 1);
    if (!body) return;
    snprintf(text, sizeof text, "#!/bin/sh\nPATH=/usr/bin:/bin\n%s\n", body);
    put("gnuplot", text);
    assert_int_equal(chmod(in_dir("gnuplot"), 0755), 0);
}

static const char *keep_script(void) {
    static char body[300];
    snprintf(body, sizeof body, "cat >%s/script; echo '<svg>drawn by none</svg>'", dir);
    return body;
}

static int setup(void **state) {
    (void)state;
    const char *path = getenv("PATH");
    path_before = strdup(path ? path : "/usr/bin:/bin");
    snprintf(dir, sizeof dir, "/tmp/vitrine-plot-XXXXXX");
    return mkdtemp(dir) && path_before ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    static const char *const names[] = {"gnuplot", "script", "log", "a.svg", "b.svg"};
    for (size_t i = 0; i < T_COUNT(names); i++) unlink(in_dir(names[i]));
    setenv("PATH", path_before, 1);
    free(path_before);
    return rmdir(dir);
}

static void test_missing(void **state) {
    (void)state;
    vt_err e = {0};
    fake(NULL);
    assert_false(vt_plot_available());
    t_says(vt_plot_svg(in_dir("a.svg"), "a title", "plot x", &e), VT_E_IO, &e, "gnuplot is not installed",
           "Debian: gnuplot-nox");
    t_says(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_E_IO, &e, "gnuplot is not installed", "");
    assert_false(there("a.svg") || half_there());
    char path[200];
    snprintf(path, sizeof path, "/nowhere::%s:", dir); /* found behind folders that do not exist */
    fake(keep_script());
    setenv("PATH", path, 1);
    assert_true(vt_plot_available());
}

/* The script arrives whole after our settings, and what gnuplot writes is the file. */
static void test_script(void **state) {
    (void)state;
    vt_err e = {0};
    fake(keep_script());
    size_t n = 100000; /* more than a pipe holds */
    char *body = malloc(n + 1);
    assert_non_null(body);
    memset(body, '#', n);
    body[n] = 0;
    assert_int_equal(vt_plot_svg(in_dir("a.svg"), "a title", body, &e), VT_OK);
    assert_string_equal(get("a.svg"), "<svg>drawn by none</svg>\n");
    assert_int_equal(count(get("script"), body), 1);
    assert_non_null(strstr(get("script"), "set terminal svg size"));
    assert_false(half_there());
    free(body);
    unlink(in_dir("a.svg"));
}

/* A failure leaves what was there, and says what gnuplot said last. */
static void test_failures(void **state) {
    (void)state;
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"echo first >&2; echo '         line 3: undefined variable: foo' >&2; echo >&2; exit 1",
         "gnuplot failed with status 1: line 3: undefined variable: foo"},
        {"exit 7", "status 7: (it said nothing)"},
        {"kill -9 $$", "status 137"},
        {"exit 0", "wrote no complete SVG"},
        {"echo '<svg> and then the disk was full'", "wrote no complete SVG"},
        {"echo 'no font' >&2; echo '<svg>'", "wrote no complete SVG: no font"},
    };
    vt_err e = {0};
    put("a.svg", "kept");
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        fake(cases[i].body);
        t_says(vt_plot_svg(in_dir("a.svg"), "a title", "plot x", &e), VT_E_IO, &e, "a.svg: gnuplot", cases[i].says);
        assert_string_equal(get("a.svg"), "kept");
        assert_false(half_there());
    }
    put("gnuplot", "#!/nowhere/sh\n"); /* executable, but cannot be started */
    t_says(vt_plot_svg(in_dir("a.svg"), "a title", "", &e), VT_E_IO, &e, "a.svg", "cannot be started");
    fake(keep_script());
    t_says(vt_plot_svg(in_dir("no/a.svg"), "", "", &e), VT_E_IO, &e, "no/a.svg", "No such file");
    t_says(vt_plot_svg("", "", "", &e), VT_E_IO, &e, "''", "empty");
    unlink(in_dir("a.svg"));
}

/* A title may hold anything; in the script it is a string, in the picture text. */
static void test_title(void **state) {
    (void)state;
    vt_err e = {0};
    char body[300];
    snprintf(body, sizeof body, "cat >%s/script; echo '<svg><title>Gnuplot</title><g/></svg>'", dir);
    fake(body);
    assert_int_equal(vt_plot_svg(in_dir("a.svg"), "it's <A> & \"B\"_1\n`x`", "plot x", &e), VT_OK);
    assert_string_equal(get("a.svg"), "<svg><title>it&#39;s &lt;A&gt; &amp; &quot;B&quot;_1?`x`</title><g/></svg>\n");
    assert_non_null(
        strstr(get("script"), "\npicture = 'it''s <A> & \"B\"_1?`x`'\nset title picture noenhanced\nplot x\n"));
    unlink(in_dir("a.svg"));
}

static void test_quote(void **state) {
    (void)state;
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    vt_plot_quote(f, "it's `rm` $x @y \"z\"\n\\");
    fclose(f);
    assert_string_equal(text, "'it''s `rm` $x @y \"z\"?\\'");
    free(text);
}

/* ---- training logs ---- */

static const char whole_log[] = "{\"step\":1,\"epoch\":0.5,\"loss\":2.3,\"lr\":0.05,\"penalty_msvp\":1}\n"
                                "{\"step\":2,\"epoch\":1,\"loss\":2.1,\"lr\":0.1}\n"
                                "{\"epoch_end\":1,\"loss\":2.2,\"clean_train\":0.5,\"robust_train\":0.25,"
                                "\"clean_probe\":0.375,\"robust_probe\":null,\"penalty_msvp\":3.5}\n"
                                "{\"note\":\"neither a step nor an epoch\"}\n"
                                "{\"epoch_end\":2,\"loss\":1.75,\"clean_train\":null,\"robust_train\":0.3125,"
                                "\"clean_probe\":0.625,\"robust_probe\":0.125}\n"
                                "{\"step\":3,\"epoch\":2.5,\"lo";

static void test_training(void **state) {
    (void)state;
    vt_err e = {0};
    fake(keep_script());
    put("log", whole_log);
    assert_int_equal(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_OK);
    const char *s = get("script");
    static const char *const words[] = {
        "<< EOD\n1 2.2\n2 1.75\nEOD",   /* loss: epoch means, not those of steps */
        "<< EOD\n0.5 0.05\n1 0.1\nEOD", /* learning rate */
        "<< EOD\n1 50\nEOD",            /* shares as per cent; null is left out */
        "<< EOD\n1 37.5\n2 62.5\nEOD",
        "<< EOD\n1 25\n2 31.25\nEOD",
        "<< EOD\n2 12.5\nEOD",
        "title 'loss, mean of the epoch'",
        "title 'learning rate'",
        "title 'robust, probe'",
        "set xrange [0:2]",
    };
    for (size_t i = 0; i < T_COUNT(words); i++)
        if (count(s, words[i]) != 1) fail_msg("'%s' is not once in: %s", words[i], s);
    /* a key that no line has: its curve is not there */
    put("log", "{\"epoch_end\":1,\"loss\":2,\"clean_train\":0.5,\"robust_train\":null}\n");
    assert_int_equal(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_OK);
    s = get("script");
    assert_int_equal(count(s, "<< EOD"), 2);
    assert_int_equal(count(s, "title '"), 2);
    assert_null(strstr(s, "learning rate"));
    unlink(in_dir("a.svg"));
}

/* Many steps are thinned out; the first and the last stay. */
static void test_thinned(void **state) {
    (void)state;
    vt_err e = {0};
    fake(keep_script());
    FILE *f = fopen(in_dir("log"), "w");
    assert_non_null(f);
    for (int i = 0; i < 5001; i++) fprintf(f, "{\"step\":%d,\"epoch\":%g,\"lr\":0.25}\n", i, i / 1000.0);
    fclose(f);
    assert_int_equal(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_OK);
    const char *s = get("script");
    assert_int_equal(count(s, " 0.25\n"), 1668); /* every third of 5001 from the first on, and the last */
    assert_int_equal(count(s, "\n0 0.25\n"), 1);
    assert_int_equal(count(s, "\n5 0.25\nEOD"), 1);
    unlink(in_dir("a.svg"));
}

static void test_bad_logs(void **state) {
    (void)state;
    vt_err e = {0};
    fake(keep_script());
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "holds nothing that could be plotted"},
        {"{\"epoch_end\":1", "holds nothing"},
        {"{\"epoch_end\":\"1\",\"loss\":2}\n", "holds nothing"},
        {"{\"epoch_end\":1,\"loss\":2}\n{\"epoch_end\":2,\n", "line 2 is not a JSON object: "},
        {"{\"epoch_end\":1,\"loss\":2}\n\n", "line 2 is not a JSON object"},
        {"{\"epoch_end\":1,\"loss\":2}\n[3]\n{\"epoch_end\":2,\"loss\":1}\n", "line 2 is not a JSON object"},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        put("log", cases[i].text);
        t_says(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_E_FORMAT, &e, "/log: ", cases[i].says);
        assert_false(there("a.svg"));
    }
    unlink(in_dir("log"));
    t_says(vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e), VT_E_IO, &e, "/log", "No such file");
}

/* The real gnuplot takes the script, twice to the same bytes. */
static void test_real(void **state) {
    (void)state;
    vt_err e = {0};
    unlink(in_dir("gnuplot"));
    setenv("PATH", path_before, 1);
    if (!vt_plot_available()) skip();
    put("log", whole_log);
    vt_status s = vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e);
    if (s != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_plot_training(in_dir("log"), "a run", in_dir("b.svg"), &e), VT_OK);
    char *a = strdup(get("a.svg"));
    assert_non_null(a);
    assert_string_equal(a, get("b.svg"));
    assert_true(strstr(a, "robust, probe") && strstr(a, "accuracy"));
    assert_true(strstr(a, "<title>a run</title>") && !strstr(a, "<title>Gnuplot") && strstr(a, ">a run</text>"));
    free(a);
    t_says(vt_plot_svg(in_dir("a.svg"), "a title", "plot foo*x", &e), VT_E_IO, &e, "gnuplot failed", "foo");
    /* all curves of a panel missing */
    put("log", "{\"epoch\":1,\"lr\":0.5}\n{\"epoch\":2,\"lr\":0.5}\n");
    s = vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e);
    if (s != VT_OK) fail_msg("%s", e.text);
    put("log", "{\"epoch_end\":1,\"clean_train\":0.5}\n");
    s = vt_plot_training(in_dir("log"), "a run", in_dir("a.svg"), &e);
    if (s != VT_OK) fail_msg("%s", e.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing), cmocka_unit_test(test_script),   cmocka_unit_test(test_failures),
        cmocka_unit_test(test_title),   cmocka_unit_test(test_quote),    cmocka_unit_test(test_training),
        cmocka_unit_test(test_thinned), cmocka_unit_test(test_bad_logs), cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("plot", tests, setup, teardown);
}
