/* SPDX-License-Identifier: MIT */
/* The header of a run becomes fields: each one, absent, of another type, out of range. */
#include <jansson.h>
#include "base/json.h"
#include "eval/header.h"
#include "t.h"

/* Every key that is read. */
static const char whole[] =
    "{'format':'vitrine ledger 2','vitrine':'9.8.7','weights':'w64','weights_name':'name','blas':'kernels',"
    "'compiler':'gcc','norm':'patch','eps':'1','eps_value':1,'seed':12345678901,'exhaustive':true,'curve':true,"
    "'gradient_cost':2.5,'notes':['run'],"
    "'model':{'architecture':'vit','image':32,'native':24,'patch':4,'dim':64,'depth':3,'heads':2,'classes':10,"
    "'notes':['model 1','model 2']},'sources':{'dim':{'value':64}},"
    "'data':{'format':'cifar','split':'test','sha256':'d64','corruption':'fog','severity':5,'notes':['data']},"
    "'threat':{'patch':{'size':5,'count':16,'aligned':true}},'wrap':{'id':'noise:sigma=0.1'},"
    "'surrogate':{'name':'twin','notes':['surrogate']},"
    "'attacks':[{'name':'a','id':'a:b+c','profile':true,'at':{'eps':'1/4','value':0.25},"
    "'stages':[{'name':'b','id':'b:x=1'},{'name':'c','id':'c:y=2','share':0.125}]},"
    "{'name':'q','id':'q:z','scoring':'8-bit','stages':[{'name':'q','id':'q:z'}]},"
    "{'name':'p','id':'p','scoring':'as published'}],"
    "'as_published':{'paper':'p','citation':'who','rows':[{'row':'FGSM','published':3,'corrected':1,"
    "'difference':'why'}]}}";

/* Of 'single' quotes double ones; the reference is the caller's. */
static json_t *parsed(const char *text) {
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    json_t *o = json_loads(copy, JSON_DECODE_ANY, NULL);
    if (!o) fail_msg("no JSON: %s", copy);
    free(copy);
    return o;
}

/* The whole header, in which "attacks.0.at" is `to`; NULL: absent. */
static json_t *with(const char *path, const char *to) {
    json_t *top = parsed(whole), *o = top;
    char key[40];
    for (size_t n; n = strcspn(path, "."), path[n]; path += n + 1) {
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(key)) : json_object_get(o, key);
        assert_non_null(o);
    }
    if (json_is_array(o))
        assert_int_equal(json_array_set_new(o, (size_t)atoi(path), parsed(to)), 0);
    else if (to)
        assert_int_equal(json_object_set_new(o, path, parsed(to)), 0);
    else
        assert_int_equal(json_object_del(o, path), 0);
    return top;
}

static vt_header *read_with(const char *path, const char *to) {
    vt_header *h;
    vt_err e = {0};
    if (vt_header_read(&h, with(path, to), "f", &e) != VT_OK) fail_msg("%s absent: %s", path, e.text);
    return h;
}

static void run_is_whole(const vt_header *h) {
    const char *const texts[][2] =
        {{h->format, "vitrine ledger 2"}, {h->version, "9.8.7"},      {h->weights, "w64"},
         {h->weights_name, "name"},       {h->kernels, "kernels"},    {h->compiler, "gcc"},
         {h->norm_name, "patch"},         {h->eps_text, "1"},         {h->wrap, "noise:sigma=0.1"},
         {h->model.architecture, "vit"},  {h->data.format, "cifar"},  {h->data.split, "test"},
         {h->data.sha256, "d64"},         {h->data.corruption, "fog"}};
    for (size_t i = 0; i < T_COUNT(texts); i++) assert_string_equal(texts[i][0], texts[i][1]);
    assert_true(h->norm == VT_LINF && h->eps == 1 && h->seed == 12345678901 && h->exhaustive && h->curve);
    assert_true(h->gradient_cost == 2.5 && vt_shape_same(h->shape, vt_shape_rgb(24)) && h->data.severity == 5);
    assert_true(h->model.image == 32 && h->model.native == 24 && h->model.patch == 4 && h->model.dim == 64);
    assert_true(h->model.depth == 3 && h->model.heads == 2 && h->model.classes == 10);
    assert_true(h->patch.size == 5 && h->patch.count == 16 && h->patch.aligned);
}

static void test_fields(void **state) {
    (void)state;
    static const char *const notes[] = {"data", "model 1", "model 2", "surrogate", "run"};
    vt_header *h = read_with("unknown", "1");
    run_is_whole(h);
    const vt_header_attack *a = h->attacks, *q = a + 1;
    assert_int_equal(h->n_attacks, 3);
    assert_string_equal(a->name, "a");
    assert_string_equal(a->id, "a:b+c");
    assert_string_equal(a->radius_text, "1/4");
    assert_true(a->radius == 0.25 && a->profile && a->scoring == VT_SCORE_BALL && a->n_stages == 2);
    assert_string_equal(a->stages[1].name, "c");
    assert_string_equal(a->stages[1].id, "c:y=2");
    assert_true(a->stages[0].share == 1 && a->stages[1].share == 0.125);
    assert_true(isinf(q->radius) && !q->profile && q->scoring == VT_SCORE_EIGHT_BIT && q->n_stages == 1);
    assert_string_equal(q->radius_text, "");
    assert_int_equal(h->n_notes, T_COUNT(notes));
    for (size_t i = 0; i < T_COUNT(notes); i++) assert_string_equal(h->notes[i], notes[i]);
    assert_string_equal(h->published.paper, "p");
    assert_string_equal(h->published.citation, "who");
    assert_int_equal(h->published.n_rows, 1);
    const vt_header_row *r = h->published.rows;
    assert_string_equal(r->label, "FGSM");
    assert_string_equal(r->why, "why");
    assert_true(r->published == 3 && r->corrected == 1);
    assert_ptr_equal(h->sources, json_object_get(h->document, "sources"));
    assert_ptr_equal(h->model.document, json_object_get(h->document, "model"));
    assert_ptr_equal(h->data.document, json_object_get(h->document, "data"));
    assert_true(json_is_object(h->published.document));
    vt_header_free(h);
}

/* A header that says nothing is what runs made before a key was there say of it. */
static void test_absent(void **state) {
    (void)state;
    vt_header *h;
    vt_err e = {0};
    assert_int_equal(vt_header_read(&h, parsed("{}"), "f", &e), VT_OK);
    const char *const texts[] = {h->format,
                                 h->version,
                                 h->weights,
                                 h->weights_name,
                                 h->kernels,
                                 h->compiler,
                                 h->norm_name,
                                 h->eps_text,
                                 h->data.format,
                                 h->data.split,
                                 h->data.sha256,
                                 h->data.corruption,
                                 h->model.architecture,
                                 h->published.paper,
                                 h->published.citation};
    for (size_t i = 0; i < T_COUNT(texts); i++) assert_string_equal(texts[i], "");
    assert_true(h->norm == VT_LINF && isnan(h->eps) && h->seed == 0 && !h->exhaustive && !h->curve);
    assert_true(h->gradient_cost == 0 && vt_shape_values(h->shape) == 0 && h->data.severity == 0);
    assert_true(h->model.image == 0 && h->model.native == 0 && h->model.patch == 0 && h->model.dim == 0);
    assert_true(h->model.depth == 0 && h->model.heads == 0 && h->model.classes == 0);
    assert_true(h->patch.size == 0 && h->patch.count == 0 && !h->patch.aligned);
    assert_true(h->n_attacks == 0 && h->n_notes == 0 && h->published.n_rows == 0);
    assert_true(!h->wrap && !h->sources && !h->model.document && !h->data.document && !h->published.document);
    vt_header_free(h);
    h = read_with("model.native", NULL);
    assert_true(vt_shape_same(h->shape, vt_shape_rgb(32)));
    vt_header_free(h);
    h = read_with("model", "{'channels':5,'height':4,'width':9}");
    assert_true(vt_shape_same(h->shape, (vt_shape){5, 4, 9}));
    vt_header_free(h);
    h = read_with("curve", NULL); /* an attack with a radius of its own makes one */
    assert_true(h->curve);
    vt_header_free(h);
    h = read_with("attacks.0", "{}");
    const vt_header_attack *a = h->attacks;
    assert_true(!*a->name && !*a->id && isinf(a->radius) && !*a->radius_text && !a->n_stages && !a->profile);
    vt_header_free(h);
    h = read_with("attacks.0.stages.1", "{}");
    assert_true(!*h->attacks[0].stages[1].id && h->attacks[0].stages[1].share == 1);
    vt_header_free(h);
}

/* Every limit is inside. */
static void test_limits(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"seed", "-9223372036854775808"},
        {"seed", "9223372036854775807"},
        {"gradient_cost", "0"},
        {"gradient_cost", "1e6"},
        {"model.image", "1"},
        {"model.image", "4096"},
        {"model.native", "4096"},
        {"model.dim", "16384"},
        {"model.depth", "512"},
        {"model.heads", "65536"},
        {"model.classes", "100000"},
        {"data.severity", "1"},
        {"threat.patch.size", "4096"},
        {"threat.patch.count", "1"},
        {"attacks.0.stages.0.share", "0"},
        {"attacks.0.stages.0.share", "1"},
        {"attacks.0.scoring", "'ball'"},
        {"attacks.0.at", "{'eps':'0','value':0}"},
        {"attacks.0.at", "{'eps':'1e8','value':100000000}"},
        {"attacks.0.stages", "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]"},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) vt_header_free(read_with(rows[i][0], rows[i][1]));
    vt_header *h = read_with("seed", "-9223372036854775808");
    assert_true(h->seed == (uint64_t)1 << 63);
    vt_header_free(h);
}

static void refused(const char *path, const char *to, const char *said) {
    vt_header *h = (vt_header *)&h;
    vt_err e = {0};
    t_says(vt_header_read(&h, with(path, to), "r/ledger.jsonl", &e), VT_E_FORMAT, &e, "r/ledger.jsonl: the header",
           said);
    assert_null(h);
}

/* Path, key, value and limit in one sentence. */
static void test_wrong(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"format", "'vitrine ledger 3'", "'s format is \"vitrine ledger 3\", must be vitrine ledger 2"},
        {"format", "'vitrine ledger 1'", "'s format is \"vitrine ledger 1\", must be vitrine ledger 2"},
        {"vitrine", "1", "'s vitrine is 1, must be text"},
        {"weights", "[1]", "'s weights is [1], must be text"},
        {"weights_name", "null", "'s weights_name is null, must be text"},
        {"blas", "{}", "'s blas is {}, must be text"},
        {"compiler", "true", "'s compiler is true, must be text"},
        {"norm", "'l7'", "'s norm is \"l7\", must be linf, l2, l1, l0, patch, box or rotation"},
        {"norm", "2", "'s norm is 2, must be linf, l2, l1, l0, patch, box or rotation"},
        {"eps", "0.5", "'s eps is 0.5, must be text"},
        {"eps_value", "'1/2'", "'s eps_value is \"1/2\", must be a number from 0 to 100000000"},
        {"eps_value", "-0.001", "'s eps_value is -0.001, must be a number from 0 to 100000000"},
        {"eps_value", "1e9", "must be a number from 0 to 100000000"},
        {"eps", "'2'", "'s eps is \"2\", but its eps_value is 1: must be one number"},
        {"eps", "'one'", "'s eps is \"one\", but its eps_value is 1: must be one number"},
        {"eps", "'255/255 '", "'s eps is \"255/255 \", but its eps_value is 1: must be one number"},
        {"eps", NULL, "'s eps is missing, but its eps_value is 1: must be one number"},
        {"eps_value", NULL, "'s eps is \"1\", but its eps_value is missing: must be one number"},
        {"eps_value", "1.0000000000000002", "'s eps is \"1\", but its eps_value is 1.0000000000000002: must be one"},
        {"attacks.0.at.eps", "'1/5'", "'s attacks[0].at.eps is \"1/5\", but its attacks[0].at.value is 0.25: must be"},
        {"attacks.0.at.eps", NULL, "'s attacks[0].at.eps is missing, but its attacks[0].at.value is 0.25: must be"},
        {"norm", "'l2'",
         "'s norm is l2, must be patch where threat.patch says which, box where threat.box does, rotation where "
         "threat.rotation does, and only there"},
        {"norm", "'rotation'", "'s norm is rotation, must be patch where threat.patch"},
        {"norm", NULL, "'s norm is missing, must be patch where threat.patch"},
        {"threat", NULL,
         "'s norm is patch, must be patch where threat.patch says which, box where threat.box does, rotation where "
         "threat.rotation does, and only there"},
        {"seed", "1.5", "'s seed is 1.5, must be a whole number"},
        {"seed", "'1'", "'s seed is \"1\", must be a whole number"},
        {"exhaustive", "0", "'s exhaustive is 0, must be true or false"},
        {"curve", "'yes'", "'s curve is \"yes\", must be true or false"},
        {"gradient_cost", "-1", "'s gradient_cost is -1, must be a number from 0 to 1000000"},
        {"gradient_cost", "1e308", "must be a number from 0 to 1000000"},
        {"notes", "'one'", "'s notes is \"one\", must be a list"},
        {"notes", "['one',2]", "'s notes is [\"one\",2], must be a list of texts"},
        {"model", "[]", "'s model is [], must be an object"},
        {"model.architecture", "1", "'s model.architecture is 1, must be text"},
        {"model.image", "0", "'s model.image is 0, must be a whole number from 1 to 4096"},
        {"model.image", "4097", "'s model.image is 4097, must be a whole number from 1 to 4096"},
        {"model.image", "32.0", "must be a whole number from 1 to 4096"},
        {"model.image", "4294967328", "'s model.image is 4294967328, must be a whole number from 1 to 4096"},
        {"model.native", "-1", "'s model.native is -1, must be a whole number from 1 to 4096"},
        {"model.patch", "-4", "'s model.patch is -4, must be a whole number from 0 to 4096"},
        {"model.dim", "99999", "'s model.dim is 99999, must be a whole number from 0 to 16384"},
        {"model.depth", "513", "'s model.depth is 513, must be a whole number from 0 to 512"},
        {"model.heads", "'2'", "'s model.heads is \"2\", must be a whole number from 0 to 65536"},
        {"model.classes", "100001", "'s model.classes is 100001, must be a whole number from 0 to 100000"},
        {"model.notes", "[[]]", "'s model.notes is [[]], must be a list of texts"},
        {"sources", "1", "'s sources is 1, must be an object"},
        {"data", "'d'", "'s data is \"d\", must be an object"},
        {"data.format", "1", "'s data.format is 1, must be text"},
        {"data.split", "1", "'s data.split is 1, must be text"},
        {"data.sha256", "1", "'s data.sha256 is 1, must be text"},
        {"data.corruption", "1", "'s data.corruption is 1, must be text"},
        {"data.severity", "0", "'s data.severity is 0, must be a whole number from 1 to 5"},
        {"data.severity", "6", "'s data.severity is 6, must be a whole number from 1 to 5"},
        {"data.notes", "{}", "'s data.notes is {}, must be a list"},
        {"threat", "'patch'", "'s threat is \"patch\", must be an object"},
        {"threat.patch", NULL, "'s norm is patch, must be patch where threat.patch says which"},
        {"threat.patch", "5", "'s threat.patch is 5, must be an object"},
        {"threat.patch.size", NULL, "'s threat.patch.size is missing, must be a whole number from 1 to 4096"},
        {"threat.patch.size", "0", "'s threat.patch.size is 0, must be"},
        {"threat.patch.size", "4097", "'s threat.patch.size is 4097, must be"},
        {"threat.patch.count", NULL, "'s threat.patch.count is missing, must be a whole number from 1 to 16"},
        {"threat.patch.count", "17", "'s threat.patch.count is 17, must be a whole number from 1 to 16"},
        {"threat.patch.aligned", "1", "'s threat.patch.aligned is 1, must be true or false"},
        {"wrap", "'noise'", "'s wrap is \"noise\", must be an object"},
        {"wrap.id", NULL, "'s wrap.id is missing, must be text"},
        {"wrap.id", "7", "'s wrap.id is 7, must be text"},
        {"surrogate", "[]", "'s surrogate is [], must be an object"},
        {"surrogate.notes", "1", "'s surrogate.notes is 1, must be a list"},
        {"attacks", "{}", "'s attacks is {}, must be a list"},
        {"attacks.1", "'pgd'", "'s attacks[1] is \"pgd\", must be an object"},
        {"attacks.0.name", "1", "'s attacks[0].name is 1, must be text"},
        {"attacks.1.id", "1", "'s attacks[1].id is 1, must be text"},
        {"attacks.1.scoring", "'4-bit'", "'s attacks[1].scoring is \"4-bit\", must be ball, 8-bit or as published"},
        {"attacks.1.scoring", "8", "'s attacks[1].scoring is 8, must be ball, 8-bit or as published"},
        {"attacks.0.scoring", "'8-bit'", "begins with an 8-bit entry"},
        {"attacks.0.profile", "1", "'s attacks[0].profile is 1, must be true or false"},
        {"attacks.0.at", "0.25", "'s attacks[0].at is 0.25, must be an object"},
        {"attacks.0.at.eps", "0.25", "'s attacks[0].at.eps is 0.25, must be text"},
        {"attacks.0.at.value", NULL, "'s attacks[0].at.value is missing, must be a number from 0 to 100000000"},
        {"attacks.0.at.value", "-1", "'s attacks[0].at.value is -1, must be a number from 0 to 100000000"},
        {"attacks.0.stages", "'pgd'", "'s attacks[0].stages is \"pgd\", must be a list"},
        {"attacks.0.stages", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
         "'s attacks[0].stages has 17 members, must have at most 16"},
        {"attacks.0.stages.1", "'pgd'", "'s attacks[0].stages[1] is \"pgd\", must be an object"},
        {"attacks.0.stages.1.name", "1", "'s attacks[0].stages[1].name is 1, must be text"},
        {"attacks.0.stages.1.id", "1", "'s attacks[0].stages[1].id is 1, must be text"},
        {"attacks.0.stages.1.share", "1.01", "'s attacks[0].stages[1].share is 1.01, must be a number from 0 to 1"},
        {"attacks.0.stages.1.share", "-0.1", "'s attacks[0].stages[1].share is -0.1, must be a number from 0 to 1"},
        {"as_published", "'p'", "'s as_published is \"p\", must be an object"},
        {"as_published.paper", "1", "'s as_published.paper is 1, must be text"},
        {"as_published.citation", "1", "'s as_published.citation is 1, must be text"},
        {"as_published.rows", "{}", "'s as_published.rows is {}, must be a list"},
        {"as_published.rows.0", "1", "'s as_published.rows[0] is 1, must be an object"},
        {"as_published.rows.0.row", "1", "'s as_published.rows[0].row is 1, must be text"},
        {"as_published.rows.0.difference", "1", "'s as_published.rows[0].difference is 1, must be text"},
        {"as_published.rows.0.published", NULL, "'s as_published.rows[0].published is missing, must be a whole number"},
        {"as_published.rows.0.published", "0", "'s as_published.rows[0].published is 0, must be a whole number from 1"},
        {"as_published.rows.0.published", "4", "attacks 4 and 1, must be at most 3"},
        {"as_published.rows.0.published", "1", "attacks 1 and 1, must be one scored as published and one in the ball"},
        {"as_published.rows.0.corrected", "2", "attacks 3 and 2, must be one scored as published and one in the ball"},
        {"as_published.rows.0.corrected", "3", "attacks 3 and 3, must be one scored as published and one in the ball"},
        {"as_published.rows.0.corrected", "-1",
         "'s as_published.rows[0].corrected is -1, must be a whole number from 1"},
        {"as_published.rows.0.corrected", "4", "attacks 3 and 4, must be at most 3"},
        {"model.channels", "5", "'s model needs channels, height and width"}, /* beside "image" */
        {"model", "{'channels':5,'height':4}", "'s model needs channels, height and width"},
        {"model", "{'channels':64,'height':4096,'width':4096}", "of at most 67108864 values"},
        {"model", "{'channels':0,'height':4,'width':4}", "channels is 0, must be a whole number from 1 to 64"},
        {"elsewhere", "{'deep':['a\\u001b[2Jb']}", "'s text '"},
        {"weights_name", "'a\\nb'", "'s text '"},
        {"a\tb", "1", "'s text '"},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) refused(rows[i][0], rows[i][1], rows[i][2]);
}

/* A curve is printed without its eps: that is the whole box, of each norm, or there is no curve. */
static void test_box(void **state) {
    (void)state;
    static const struct {
        const char *norm, *eps;
        double value;
        bool fits;
    } rows[] = {{"linf", "1", 1, true}, {"linf", "16/255", 16.0 / 255, false},
                {"l2", "5", 5, false},  {"l2", "6", 6, true}, /* sqrt(3 * 3 * 4) */
                {"l1", "36", 36, true}, {"l1", "6", 6, false},
                {"l0", "36", 36, true}, {"l0", "35", 35, false}};
    for (size_t i = 0; i < 2 * T_COUNT(rows); i++) {
        vt_header *h;
        vt_err e = {0};
        json_t *o = json_pack("{s:s,s:s,s:f,s:{s:i,s:i,s:i}}", "norm", rows[i / 2].norm, "eps", rows[i / 2].eps,
                              "eps_value", rows[i / 2].value, "model", "channels", 3, "height", 3, "width", 4);
        if (i % 2) /* either says that it is one */
            json_object_set_new(o, "curve", json_true());
        else
            json_object_set_new(o, "attacks", json_pack("[{s:{s:s,s:f}}]", "at", "eps", "1/4", "value", 0.25));
        vt_status s = vt_header_read(&h, o, "f", &e);
        if (rows[i / 2].fits)
            assert_true(s == VT_OK && h->curve);
        else
            t_says(s, VT_E_FORMAT, &e, "f: the header says a curve, whose eps_value must be", "the whole box, not");
        vt_header_free(h);
    }
}

static void test_many(void **state) {
    (void)state;
    for (int n = VT_HEADER_ATTACKS; n <= VT_HEADER_ATTACKS + 1; n++) {
        json_t *list = json_array();
        vt_header *h;
        vt_err e = {0};
        for (int i = 0; i < n; i++) json_array_append_new(list, json_object());
        vt_status s = vt_header_read(&h, json_pack("{s:o}", "attacks", list), "f", &e);
        if (n > VT_HEADER_ATTACKS)
            t_says(s, VT_E_FORMAT, &e, "f: the header's attacks has 1001 members", "at most 1000");
        else
            assert_true(s == VT_OK && h->n_attacks == n);
        vt_header_free(h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields), cmocka_unit_test(test_absent), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_wrong),  cmocka_unit_test(test_many),   cmocka_unit_test(test_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
