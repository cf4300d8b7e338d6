/* SPDX-License-Identifier: MIT */
/* The auditor's page (eval/report/dossier.h): what it says was not tested, and what is only an upper bound, of runs
 * that are written down here. Its numbers and commands on real runs are tests/cli/dossier.bats. */
#include "eval/report/dossier.h"

#include "eval/header.h"
#include "t.h"

static vt_header_stage stages[] = {{.name = "apgd-ce", .id = "apgd-ce:steps=5", .share = 1},
                                   {.name = "square", .id = "square:queries=9", .share = 1}};
static vt_header_attack attack =
    {.name = "apgd-ce+square", .id = "both", .reference = "", .radius = INFINITY, .stages = stages, .n_stages = 2};

/* A run and what it found: 10 of 300 images, 8 right, 5 of them in the end. */
typedef struct run {
    vt_header h;
    vt_ledger l;
    vt_summary s;
    vt_entry_summary entry;
    vt_counts stages[2];
} run;

static void fill(run *r, vt_norm norm, double eps, const char *eps_text) {
    *r = (run){.h = {.norm = norm, .eps = eps, .eps_text = eps_text, .norm_name = vt_norm_name(norm)}};
    r->h.attacks = &attack, r->h.n_attacks = 1, r->h.seed = 7;
    r->h.surrogate.name = r->h.surrogate.sha256 = r->h.weights_name = r->h.weights = r->h.search = "";
    r->h.kernels = r->h.compiler = r->h.version = "";
    r->h.model.architecture = "vit", r->h.model.forms = r->h.model.input = r->h.model.attention = "";
    r->h.data.format = "cifar", r->h.data.split = "test", r->h.data.sha256 = r->h.data.preprocess = "";
    r->h.data.corruption = "", r->h.data.count = 300;
    r->l = (vt_ledger){.dir = (char *)"run", .header = &r->h};
    r->stages[0] = (vt_counts){.label = "apgd-ce", .tried = 8, .broken = 2};
    r->stages[1] = (vt_counts){.label = "square", .tried = 6, .broken = 1};
    r->entry = (vt_entry_summary){.of = &attack, .stages = r->stages, .sample = {.share = 1}};
    r->entry.all = (vt_counts){.label = "apgd-ce+square", .tried = 14, .broken = 3};
    r->s = (vt_summary){.header = &r->h, .total = 10, .correct = 8, .worst_robust = 5, .worst_eight_bit = -1};
    r->s.entries = &r->entry, r->s.n_entries = 1;
}

static char *commands[VT_AGAIN_COUNT];

/* Returns the page of a run [first] and those beside it, to be freed; list: what was not tested alone. */
static char *page(run *r, int n, bool list) {
    vt_dossier d = {.name = "m", .ledger = &r->l, .summary = &r->s, .data = "data", .verdict = ""};
    char *text = NULL;
    size_t size;
    for (int k = 0; k < VT_AGAIN_COUNT; k++) commands[k] = (char *)"";
    memcpy(d.again, commands, sizeof commands);
    for (int k = 1; k < n; k++)
        d.other[d.n_others++] =
            (vt_dossier_other){.name = "other", .ledger = &r[k].l, .summary = r[k].s, .again = (char *)"make it"};
    FILE *f = open_memstream(&text, &size);
    if (list)
        vt_dossier_untested(f, &d);
    else
        assert_int_equal(vt_dossier_write(f, &d, NULL), VT_OK);
    fclose(f);
    return text;
}

static void has(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static void lacks(const char *text, const char *words) {
    if (strstr(text, words)) fail_msg("'%s' is in: %s", words, text);
}

static void test_untested(void **state) {
    (void)state;
    static run r[3];
    fill(&r[0], VT_LINF, 4.0 / 255, "4/255"), fill(&r[1], VT_L2, 0.5, "0.5"), fill(&r[2], VT_LINF, 8.0 / 255, "8/255");
    char *text = page(r, 1, true);
    has(text, "<li>Other threats: l2, l1, l0, patches, boxes of bounds, rotations.</li>");
    has(text, "above linf eps 4/255.");
    has(text, "Images: 290 of the 300 images of the test split are left out.");
    has(text, "Corrupted images");
    has(text, "apgd-t, "), has(text, "hopskipjump, "), lacks(text, "apgd-ce"), lacks(text, "square");
    lacks(text, "sparse-rs"), lacks(text, "autoattack"), lacks(text, "specformer"); /* l0; ensembles; papers' */
    has(text, "Each stage alone"), has(text, "8-bit pictures"), has(text, "Seeds other than 7");
    has(text, "Transfer from another model"), has(text, "no image is certified"), has(text, "no self-test was made");
    free(text);
    r[0].h.rotation = (vt_rotation){30, 3, 31, 5};
    text = page(r, 1, true);
    has(text, "<li>Other threats: linf, l2, l1, l0, patches, boxes of bounds.</li>");
    lacks(text, "White-box attacks that"), lacks(text, "8-bit pictures"), lacks(text, "Transfer from");
    free(text);
    r[0].h.rotation.angles = 0;
    r[1].h.n_attacks = 0; /* clean accuracy alone */
    text = page(r, 2, true);
    has(text, "<li>Other threats: l2, l1, l0, ");
    free(text);
    r[1].h.n_attacks = 1, r[1].h.data.corruption = "fog", r[1].h.data.severity = 3;
    r[0].h.wrap = "smooth", r[0].s.worst_eight_bit = 4, r[0].s.left.survivors = 3, r[0].s.pending = 6;
    r[0].h.certify.method = "linear", r[0].h.certify.sentence = "", r[0].h.certify.first = true;
    r[0].s.certify.certified = 2, r[0].s.certify.undecided = 3, r[0].h.surrogate.name = "other.pth";
    snprintf(r[0].s.left.text, sizeof r[0].s.left.text, "at most 2 more");
    text = page(r, 3, true);
    has(text, "<li>Other threats: l1, l0, patches, boxes of bounds, rotations.</li>");
    has(text, "above linf eps 8/255.");
    lacks(text, "Corrupted images"), lacks(text, "8-bit pictures"), lacks(text, "Transfer from another model");
    has(text, "Adaptive attacks on smooth:"), has(text, "The time was up: at most 2 more.");
    has(text, "<li>6 stages of images are still to be done.</li>");
    has(text, "3 images are neither certified nor broken"), has(text, "2 certified images were not attacked");
    free(text);
}

static void test_knowledge(void **state) {
    (void)state;
    assert_string_equal(vt_dossier_knowledge("pgd"), "gradients");
    assert_string_equal(vt_dossier_knowledge("square"), "logits");
    assert_string_equal(vt_dossier_knowledge("hopskipjump"), "predicted classes");
    assert_string_equal(vt_dossier_knowledge("transfer"), "logits, and gradients of another model");
    assert_string_equal(vt_dossier_knowledge("wake-up"), "gradients inside the model");
    assert_string_equal(vt_dossier_knowledge("no such attack"), "unknown");
}

/* Images that attacks have not reached may still fall. */
static void test_bounds(void **state) {
    (void)state;
    static run r[2];
    fill(&r[0], VT_LINF, 4.0 / 255, "4/255"), fill(&r[1], VT_L2, 0.5, "0.5");
    char *text = page(r, 2, false);
    has(text, ">5 / 10</td><td data-of=\"%\">50.00</td><td data-of=\"95 % interval (Wilson)\">23.66 to 76.34</td>");
    has(text,
        "<th scope=\"row\">broken, or without finite logits under attack</th><td data-of=\"right / all\">3 / 10</td>");
    has(text, "<td data-of=\"tried\">8</td>"); /* images of the entry, not of all its stages */
    has(text, "<code class=\"command\">make it</code>"), has(text, "run.json names none");
    lacks(text, "at most");
    free(text);
    r[1].entry.all.open = true;
    text = page(r, 2, false);
    has(text, "l2 eps 0.5</td><td data-of=\"right / all\">at most 5 / 10");
    free(text);
    r[0].entry.all.open = true;
    text = page(r, 1, false);
    has(text, "right under every attack of this run</th><td data-of=\"right / all\">at most 5 / 10");
    has(text, "at least 3 / 10</td><td data-of=\"%\">30.00</td><td data-of=\"95 % interval (Wilson)\">-<");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_untested), cmocka_unit_test(test_knowledge),
                                       cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
