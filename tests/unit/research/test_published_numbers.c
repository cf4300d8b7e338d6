/* SPDX-License-Identifier: MIT */
/* Published numbers: what the file takes, and what its cells say against each other. The judge of the shipped tables is
 * a list of findings made by hand and by another program from the paper's tables: the counts below. */
#include "t.h"
#include "research/table/consistency.h"

#define TABLES "recipes/published/specformer_tables.csv"
#define CLAIMS "recipes/published/specformer_claims.csv"
#define TIMES "recipes/published/specformer_times.csv"
#define PARAMETERS "recipes/published/uam_parameters.csv"

static vt_published *text(const char *t) {
    vt_published *p;
    vt_err e = {0};
    if (vt_published_parse(&p, t, strlen(t), "x.csv", &e) != VT_OK) fail_msg("%s", e.text);
    return p;
}

static void refused(const char *t, const char *a, const char *b) {
    vt_published *p;
    vt_err e = {0};
    vt_status s = vt_published_parse(&p, t, strlen(t), "x.csv", &e);
    assert_null(p);
    t_says(s, VT_E_USAGE, &e, a, b);
}

static vt_published *file(const char *path) {
    vt_published *p;
    vt_err e = {0};
    if (vt_published_open(&p, path, &e) != VT_OK) fail_msg("%s", e.text);
    return p;
}

static vt_oddities check(const vt_published *p, const vt_published *claims) {
    vt_oddities f;
    vt_err e = {0};
    if (vt_published_check(&f, p, claims, &e) != VT_OK) fail_msg("%s", e.text);
    return f;
}

/* How many findings of a check hold all texts; cells: of all of them. */
static int count(const vt_oddities *f, const char *name, bool note, const char *a, const char *b, int *cells) {
    int n = 0;
    if (cells) *cells = 0;
    for (int i = 0; i < f->n; i++) {
        const vt_oddity *x = &f->items[i];
        if (strcmp(x->check, name) || x->note != note || !strstr(x->text, a) || !strstr(x->text, b)) continue;
        n++;
        if (cells) *cells += x->n;
    }
    return n;
}

#define HEAD "table,backbone,method,dataset,attack,accuracy\n"

static void reads(void **state) {
    (void)state;
    vt_published *p = text("# a comment\n" HEAD "2,ViT,A,C,clean,87.09\r\n\n2,ViT,A,C,PGD,22.35");
    assert_int_equal(p->n, 2);
    assert_int_equal(p->unit, VT_PERCENT);
    assert_string_equal(vt_published_at(p, 1, "attack"), "PGD");
    assert_string_equal(vt_published_at(p, 1, "training"), "");
    assert_string_equal(p->cells[0].shown, "87.09");
    assert_int_equal(p->cells[1].line, 5);
    vt_published_close(p);
}

static void refuses(void **state) {
    (void)state;
    refused("", "x.csv", "no number");
    refused(HEAD, "x.csv", "no number");
    refused("a,b\n1,2\n", "x.csv:1", "must be accuracy (in percent)");
    refused(HEAD "2,V,A,C,clean,0.8709\n2,V,A,C,PGD,0.2235\n", "0 to 1", "must be in percent");
    refused(HEAD "2,V,A,C,clean,870.9\n", "x.csv:2", "from 0 to 100");
    refused(HEAD "2,V,A,C,clean,nan\n", "'nan'", "from 0 to 100");
    refused(HEAD "2,V,A,C,clean,\n", "accuracy is ''", "from 0 to 100");
    refused(HEAD "2,V,A,clean,87\n", "has 5 fields", "must have 6");
    refused(HEAD "2,V,A,C,clean,87,1,1,1,1,1,1,1,1,1\n", "has more than", "must have 6");
    refused(HEAD "2,V,A,C,clean,87\n2,V,A,C,clean,88\n", "x.csv:3", "line 2 already");
    refused("a,a,accuracy\n", "x.csv:1", "twice");
    refused(HEAD "2,V,\"A\",C,clean,87\n", "x.csv:2", "quotes");
    vt_published *p;
    vt_err e = {0};
    t_says(vt_published_open(&p, "/nowhere/x.csv", &e), VT_E_USAGE, &e, "/nowhere/x.csv", "opened");
    t_says(vt_published_parse(&p, "a,accuracy\n1\0,2\n", 16, "x.csv", &e), VT_E_USAGE, &e, "x.csv", "NUL");
}

/* A table that obeys every law has no finding; each planted breach is found, on its cell. */
#define ROW(backbone, method, clean, cw, pgd, aa)                                                                      \
    "4," backbone "," method ",C,clean," clean "\n4," backbone "," method ",C,CW-20," cw "\n4," backbone "," method    \
    ",C,PGD-20," pgd "\n4," backbone "," method ",C,AutoAttack," aa "\n"

static void laws(void **state) {
    (void)state;
    static const struct {
        const char *text, *check;
        int cell;
    } cases[] = {
        {HEAD ROW("V", "A", "71.76", "34.34", "35.49", "34.65"), "autoattack", 3},
        {HEAD ROW("V", "A", "30.01", "34.34", "35.49", "20"), "clean", 1},
        {HEAD ROW("V", "A", "10", "10", "10", "10"), "collapsed", 0},
        {HEAD ROW("V", "A", "71.76", "34.34", "35.49", "30.1") ROW("W", "A", "71.76", "34.34", "35.49", "29"), "equal",
         4},
        {HEAD "2,V,A,C,FGSM,0.05\n2,V,A,C,PGD-2,35.94\n", "pgd2", 1},
        {HEAD "6,V,A,C,PGD-20,20.5\n6,V,A,C,PGD-100,20.9\n", "steps", 1},
    };
    static const char *const clean[] = {HEAD ROW("V", "A", "71.76", "34.34", "35.49", "34.64"), /* 0.3 is the slack */
                                        HEAD ROW("V", "A", "71.76", "34.34", "35.49", "30")
                                            ROW("W", "A", "71.76", "34.34", "35.50", "29"),
                                        HEAD "6,V,A,C,PGD-20,20.5\n6,V,A,C,PGD-100,20.8\n"};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_published *p = text(cases[i].text);
        vt_oddities f = check(p, NULL);
        if (f.n != 1 || strcmp(f.items[0].check, cases[i].check)) fail_msg("%s: %d findings", cases[i].check, f.n);
        assert_true(vt_oddity_has(&f.items[0], cases[i].cell));
        vt_oddities_free(&f);
        vt_published_close(p);
    }
    for (size_t i = 0; i < T_COUNT(clean); i++) {
        vt_published *p = text(clean[i]);
        vt_oddities f = check(p, NULL);
        if (f.n) fail_msg("case %zu: %s", i, f.items[0].text);
        vt_published_close(p);
    }
}

/* SpecFormer's Tables 2 to 6 and 8: every odd thing that is known about them, and no more. */
static void specformer(void **state) {
    (void)state;
    vt_published *p = file(TABLES), *claims = file(CLAIMS);
    vt_oddities f = check(p, claims);
    int cells;
    assert_int_equal(p->n, 887);
    assert_int_equal(count(&f, "autoattack", false, "Table 4", "", &cells), 3);
    assert_int_equal(cells, 21);
    assert_int_equal(count(&f, "autoattack", false, "ViT-S", "10 of 15", NULL), 1);
    assert_int_equal(count(&f, "autoattack", false, "DeiT-Ti", "8 of 15", NULL), 1);
    assert_int_equal(count(&f, "autoattack", false, "ConViT-Ti", "3 of 15", NULL), 1);
    assert_int_equal(count(&f, "autoattack", false, "", "", NULL), 3); /* none in Table 5 */
    assert_int_equal(count(&f, "pgd2", false, "Table 2", "14 of 15", NULL), 1);
    assert_int_equal(count(&f, "pgd2", false, "", "", NULL), 1);
    assert_int_equal(count(&f, "batch", false, "Swin-Ti", "PGD-2", &cells), 2);
    assert_int_equal(cells, 8);
    assert_int_equal(count(&f, "batch", false, "", "", NULL), 2);
    assert_int_equal(count(&f, "grain", true, "257 of 260", "Imagenette", NULL), 1);
    assert_int_equal(count(&f, "grain", false, "95.31", "122/128", NULL), 1);
    assert_int_equal(count(&f, "grain", false, "80.47", "103/128", NULL), 1);
    assert_int_equal(count(&f, "grain", false, "49.08", "either", NULL), 1);
    assert_int_equal(count(&f, "grain", false, "", "", NULL), 3);
    assert_int_equal(count(&f, "collapsed", false, "L2Former", "10.0", NULL), 2);
    assert_int_equal(count(&f, "equal", false, "DeiT-Ti, LNFormer", "ConViT-Ti, LNFormer", &cells), 1);
    assert_int_equal(cells, 6);
    assert_int_equal(count(&f, "equal", false, "", "", NULL), 1);
    assert_int_equal(count(&f, "sweep", false, "CW-20", "all 12 triples (31.31 to 31.94)", NULL), 1);
    assert_int_equal(count(&f, "sweep", false, "PGD-20", "35.49", NULL), 1);
    assert_int_equal(count(&f, "sweep", true, "standard", "(5e-05, 3e-05, 3e-05)", NULL), 1);
    assert_int_equal(count(&f, "sweep", false, "adversarial", "none of", NULL), 1);
    assert_int_equal(count(&f, "clean", false, "", "", NULL) + count(&f, "steps", false, "", "", NULL), 0);
    vt_oddities_free(&f);
    vt_published_close(p), vt_published_close(claims);
}

static void averages(void **state) {
    (void)state;
    vt_published *p = file(TABLES), *claims = file(CLAIMS);
    vt_oddities f = check(p, claims);
    assert_int_equal(count(&f, "headline", true, "", "", NULL), 5);
    assert_int_equal(count(&f, "headline", false, "", "", NULL), 3);
    assert_int_equal(count(&f, "headline", false, "is 8.96 points; from 21 columns it is 4.56",
                           "Table 2's FGSM column is averaged with Table 3's PGD-2", NULL),
                     1);
    assert_int_equal(count(&f, "headline", false, "is 3.49 points; from 21 columns it is 7.88",
                           "Table 2's PGD-2 column is averaged with Table 3's FGSM", NULL),
                     1);
    assert_int_equal(count(&f, "headline", false, "is 2.36 points; from 9 columns it is 2.52", "", NULL), 1);
    assert_int_equal(count(&f, "best", false, "126 of 163", "SpecFormer", NULL), 1);
    vt_oddities_free(&f);
    vt_published_close(p), vt_published_close(claims);
}

static void times(void **state) {
    (void)state;
    vt_published *p = file(TIMES);
    vt_oddities f = check(p, NULL);
    assert_int_equal(f.n, 1);
    assert_int_equal(count(&f, "times", false, "4 of 4", "SpecFormer 1.5 to 2.5", NULL), 1);
    assert_int_equal(f.items[0].n, 8);
    vt_oddities_free(&f);
    vt_published_close(p);
    p = text("table,training,method,relative_time\n7,standard,A,1.5\n7,adversarial,A,1.2\n");
    f = check(p, NULL);
    assert_int_equal(f.n, 0);
    vt_published_close(p);
}

/* UAM's Table 2: the baseline's shapes add up, self-attention's do with a W_V of 100 x 100. */
static void parameters(void **state) {
    (void)state;
    vt_published *p = file(PARAMETERS);
    vt_oddities f = check(p, NULL);
    assert_int_equal(f.n, 2);
    assert_int_equal(count(&f, "parameters", true, "baseline: tensors",
                           "have 57335913 parameters, printed are 57335913", NULL),
                     1);
    assert_int_equal(count(&f, "parameters", false, "have 57570113 parameters, printed are 57365913",
                           "W_V of 100 x 100, not 100 x 2142, gives the printed number", NULL),
                     1);
    vt_oddities_free(&f);
    vt_published_close(p);
    p = text("table,model,tensor,rows,columns,parameters\n1,a,W,2,3,6\n1,a,all,,,7\n1,b,W,2,3,6\n");
    f = check(p, NULL);
    assert_int_equal(f.n, 1); /* b prints no number */
    assert_int_equal(count(&f, "parameters", false, "have 6 parameters, printed are 7", "", NULL), 1);
    vt_oddities_free(&f);
    vt_published_close(p);
}

#define SCORES "table,dataset,metric,method,score\n"

/* Scores of text: a variant below the plain row, and a stated gain that is not the best one's. */
static void errors(void **state) {
    (void)state;
    vt_published *p = text("table,n,method,error\n1,10,plain,3\n1,10,mask,2\n1,10,both,1\n"
                           "1,50,plain,0.3\n1,50,mask,0.0060\n1,50,both,0.0072\n2,50,both,9\n");
    vt_oddities f = check(p, NULL);
    assert_int_equal(count(&f, "ranks", false, "Table 1, n = 50", "both has 0.0072, mask 0.0060", NULL), 1);
    assert_int_equal(f.n, 1);
    assert_true(f.items[0].n == 2 && vt_oddity_has(&f.items[0], 4) && vt_oddity_has(&f.items[0], 5));
    vt_oddities_free(&f);
    vt_published_close(p);
}

static void scores(void **state) {
    (void)state;
    vt_published *p = text(SCORES "1,En-Xx,BLEU,Transformer,20\n1,En-Xx,BLEU,VAR-I,22\n1,En-Xx,BLEU,VAR-II,21\n"
                                  "3,Talk,CIDEr,Transformer,79.3\n3,Talk,CIDEr,VAR-I,79.2\n3,Talk,CIDEr,VAR-II,79.3\n");
    vt_published *claims = text("table,dataset,metric,gain\n1,En-Xx,BLEU,5.0\n3,Talk,CIDEr,0.0\n3,Talk,other,9\n");
    vt_oddities f = check(p, claims);
    assert_int_equal(count(&f, "variants", false, "Talk, CIDEr: VAR-I has 79.2", "Transformer 79.3", NULL), 1);
    assert_int_equal(count(&f, "gain", false, "gain is 5.0 %", "the best, VAR-I, has 10.00 (5.0 is VAR-II's)", NULL),
                     1);
    assert_int_equal(count(&f, "gain", true, "Talk, CIDEr", "VAR-II, has 0.00", NULL), 1);
    assert_int_equal(f.n, 3);
    vt_oddities_free(&f);
    vt_published_close(p), vt_published_close(claims);
}

static void shows(void **state) {
    (void)state;
    vt_published *p = text("table,training,method,dataset,attack,accuracy\n2,standard,A,C,FGSM,0.05\n"
                           "2,standard,A,C,PGD-2,35.9\n2,standard,B,C,FGSM,50\n3,standard,B,D,FGSM,51\n");
    vt_oddities f = check(p, NULL);
    vt_err e = {0};
    char out[4000] = "";
    FILE *stream = fmemopen(out, sizeof out, "w");
    assert_int_equal(vt_published_show(stream, p, &f, "2", &e), VT_OK);
    fclose(stream);
    assert_non_null(strstr(out, "35.90 [1]"));
    assert_non_null(strstr(out, "[1] inconsistent as published: Table 2, standard: in 1 of 1 rows PGD-2"));
    assert_null(strstr(out, "51.00")); /* the other table */
    stream = fmemopen(out, sizeof out, "w");
    t_says(vt_published_show(stream, p, &f, "9", &e), VT_E_USAGE, &e, "x.csv", "no table '9'");
    fclose(stream);
    vt_oddities_free(&f);
    vt_published_close(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),      cmocka_unit_test(refuses),  cmocka_unit_test(laws),
        cmocka_unit_test(specformer), cmocka_unit_test(averages), cmocka_unit_test(times),
        cmocka_unit_test(parameters), cmocka_unit_test(scores),   cmocka_unit_test(errors),
        cmocka_unit_test(shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
