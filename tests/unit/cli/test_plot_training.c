/* SPDX-License-Identifier: MIT */
/* The figure of a training log. src/cli is not in the library: its object is linked beside. */
#include "scratch.h"
#include "t.h"

#include <string.h>
#include "cli/plot_training.h"
#include "base/files.h"

static void put(const char *text) {
    FILE *f = fopen(at("log"), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++) n++;
    return n;
}

/* The figure of the log; to be freed. */
static char *drawn(void) {
    vt_err e = {0};
    char *text;
    size_t n;
    if (vt_plot_training(at("log"), "a run", at("a.svg"), &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_file_read(at("a.svg"), VT_FILE_ANY, &text, &n, &e), VT_OK);
    unlink(at("a.svg"));
    return text;
}

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
    put(whole_log);
    char *s = drawn();
    static const char *const words[] = {
        "<title>a run</title>",    "<title>1: 2.2</title>", /* loss: epoch means, not those of steps */
        "<title>2: 1.75</title>",  "<title>1: 50</title>",  /* shares as per cent; null is left out */
        "<title>1: 37.5</title>",  "<title>2: 62.5</title>", "<title>1: 25</title>",
        "<title>2: 31.25</title>", "<title>2: 12.5</title>", ">loss, mean of the epoch</text>",
        ">accuracy (%)</text>",    ">robust, probe</text>",
    };
    for (size_t i = 0; i < T_COUNT(words); i++)
        if (count(s, words[i]) != 1) fail_msg("'%s' is not once in: %s", words[i], s);
    assert_int_equal(count(s, ": "), 8);                    /* points with a mark */
    assert_int_equal(count(s, ">learning rate</text>"), 2); /* a panel, and in the legend */
    assert_int_equal(count(s, ">epoch</text>"), 3);
    free(s);
    /* a key that no line has: its curve is not there, nor a panel without any */
    put("{\"epoch_end\":1,\"loss\":2,\"clean_train\":0.5,\"robust_train\":null}\n");
    s = drawn();
    assert_int_equal(count(s, ">epoch</text>"), 2);
    assert_int_equal(count(s, ": "), 2);
    assert_true(!strstr(s, "learning rate") && !strstr(s, "robust"));
    free(s);
}

/* Many steps are thinned out; the first and the last stay. */
static void test_thinned(void **state) {
    (void)state;
    FILE *f = fopen(at("log"), "w");
    assert_non_null(f);
    for (int i = 0; i < 5001; i++) fprintf(f, "{\"step\":%d,\"epoch\":%g,\"lr\":0.25}\n", i, i / 1000.0);
    fclose(f);
    char *s = drawn(), *line = strstr(s, "a line"), last[20];
    assert_non_null(line);
    *strchr(line, '/') = 0;
    assert_int_equal(count(line, "L") + 1, 1668); /* every third of 5001 from the first on, and the last */
    assert_non_null(strstr(line, "d=\"M76.00 ")); /* from 0 to 5 on an axis to 5.2 */
    snprintf(last, sizeof last, "L%.2f ", 76 + 808 * 5 / 5.2);
    assert_true(strlen(strrchr(line, 'L')) < 20 && !strncmp(strrchr(line, 'L'), last, strlen(last)));
    free(s);
}

static void test_bad_logs(void **state) {
    (void)state;
    vt_err e = {0};
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
        put(cases[i].text);
        t_says(vt_plot_training(at("log"), "a run", at("a.svg"), &e), VT_E_FORMAT, &e, "/log: ", cases[i].says);
        assert_int_not_equal(access(at("a.svg"), F_OK), 0);
    }
    unlink(at("log"));
    t_says(vt_plot_training(at("log"), "a run", at("a.svg"), &e), VT_E_IO, &e, "/log", "No such file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_thinned),
        cmocka_unit_test(test_bad_logs),
    };
    return cmocka_run_group_tests_name("plot_training", tests, make_tmp, remove_tmp);
}
