/* SPDX-License-Identifier: MIT */
/* src/train/recipe*: keys, YAML, canonical text, difference, schedule; what is refused: test_refusals.c. */
#include "recipe_fixture.h"

#include <glob.h>
#include <unistd.h>
#include "attacks/ball.h"
#include "train/recipe.h"

/* ---- defaults and values ---- */

static void test_defaults(void **state) {
    (void)state;
    vt_recipe *r = fresh();
    const vt_recipe_top *t = &r->top;
    assert_true(t->epochs == 40 && t->batch == 64 && t->micro_batch == 8 && t->seed == 0);
    assert_string_equal(t->objective, "ce");
    assert_string_equal(t->optimiser, "sgd");
    assert_string_equal(t->attention_optimiser, "same");
    assert_true(t->attention_lr_scale == 1 && t->lr == 0.1 && t->weight_decay == 1e-4 && t->clip == 1);
    assert_true(t->ema == 0 && t->label_smoothing == 0 && !*t->name);
    const vt_recipe_model *m = &r->model;
    assert_true(!*m->preset && !*m->attn && !m->patch_gate && !m->has_norm);
    assert_true(!m->image && !m->patch && !m->dim && !m->depth && !m->heads && !m->hidden && !m->classes);
    assert_true(m->qkv_bias == -1 && m->pool == -1);
    assert_true(r->init.head == VT_HEAD_KEEP && r->init.pos_embed == VT_POS_BILINEAR && !*r->init.sha256);
    const vt_recipe_attack *a = &r->attack;
    assert_true(a->eps == 0 && a->norm == VT_LINF && !*a->spec && !a->ard && !a->prm && a->drop_rate == 1);
    assert_true(a->warm == 0.25 && a->prm_patch == 0 && a->ramp_begin == 0 && a->ramp_end == 0);
    const vt_recipe_schedule *s = &r->schedule;
    assert_true(s->kind == 1 && s->min_lr == 0 && s->warmup == 0 && s->factor == 0.1);
    assert_string_equal(s->drops, "0.875,0.95");
    const vt_recipe_augment *g = &r->augment;
    assert_true(g->crop == 4 && g->flip == 0.5 && g->mix_prob == 0.3 && g->mixup_alpha == 0.8);
    assert_true(g->cutmix_alpha == 1 && g->cutmix_switch == 0.5);
    assert_true(r->probe.images == 500 && r->probe.split == 0 && r->probe.eps == 0);
    assert_string_equal(r->probe.attack, "pgd:steps=10,alpha=eps/4");
    vt_err e = {0};
    assert_int_equal(vt_recipe_resolve(r, &e), VT_OK);
    assert_true(!*a->spec && r->n_drops == 2 && r->drops[0] == 0.875 && r->drops[1] == 0.95);
    vt_recipe_free(r);
    vt_recipe_free(NULL);
}

static void test_values(void **state) {
    (void)state;
    vt_recipe *r = of("# a comment\n"
                      "name: 'two words'\nepochs: 3\nobjective: at\nclip: 0\n"
                      "model: {preset: vit_cifar_dim192_depth9, qkv_bias: yes, pool: avg, patch_gate: true,\n"
                      "        mean: 0.5, std: [0.25, 0.5, 1/3]}\n"
                      "attack:\n  eps: 8/255   # radius\n  norm: l2\n  ard: 1\n"
                      "augment:\n"
                      "schedule:\n  drops: [1/4, 0.5]\n"
                      "probe.images: 7\n"
                      "msvp:\n  lambda:\n    - 1e-5\n    - 2e-5\n    - 0\n"
                      "init: {head: fresh, pos_embed: bicubic}\n",
                      true);
    assert_string_equal(r->top.name, "two words");
    assert_true(r->top.epochs == 3 && r->top.clip == 0 && r->attack.eps == 8.0 / 255 && r->attack.norm == VT_L2);
    assert_true(r->attack.ard && !r->attack.prm && r->probe.images == 7);
    assert_true(r->model.has_norm && r->model.mean[2] == 0.5 && r->model.std[0] == 0.25 && r->model.std[2] == 1.0 / 3);
    assert_true(r->model.qkv_bias == 1 && r->model.pool == 1 && r->model.patch_gate);
    assert_true(r->init.head == VT_HEAD_FRESH && r->init.pos_embed == VT_POS_BICUBIC);
    assert_true(r->n_drops == 2 && r->drops[0] == 0.25 && r->drops[1] == 0.5);
    assert_true(r->probe.eps == 8.0 / 255); /* filled in */
    assert_string_equal(r->attack.spec, "pgd:steps=10,alpha=eps/4");
    const double *lambda = vt_recipe_params(r, VT_RECIPE_PENALTY, "msvp"); /* its first field */
    assert_true(lambda[0] == 1e-5 && lambda[1] == 2e-5 && lambda[2] == 0);
    assert_null(vt_recipe_params(r, VT_RECIPE_PENALTY, "sgd"));
    assert_null(vt_recipe_params(r, VT_RECIPE_OBJECTIVE, "msvp"));
    assert_non_null(vt_recipe_params(r, VT_RECIPE_OBJECTIVE, "at"));
    assert_true(*(const double *)vt_recipe_params(r, VT_RECIPE_OPTIM, "sgd") == 0.9);
    set(r, "epochs=5");
    set(r, "epochs=6"); /* the later one counts */
    set(r, "msvp.lambda=1e-3, 1e-4, 1e-5");
    set(r, "model.qkv_bias=auto");
    assert_true(r->top.epochs == 6 && lambda[1] == 1e-4 && r->model.qkv_bias == -1);
    vt_recipe_free(r);
    vt_recipe_free(of("", true)); /* nothing set: all defaults */
    vt_recipe_free(of("---\n# nothing\n...\n", true));
    vt_recipe_free(of("\xef\xbb\xbf"
                      "epochs: 3\r\nbatch: 4\r\nmicro_batch: 4\r\n",
                      true));
}

/* Every key is reached by its full name, every section has its own, and no default is out of its range. */
static void test_keys(void **state) {
    (void)state;
    vt_recipe *r = fresh();
    vt_recipe_section s, other;
    vt_err e = {0};
    int keys = 0;
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++) {
        assert_true(vt_recipe_section_named(r, s.name, &other));
        if (other.intro != s.intro || other.family != s.family) fail_msg("two sections are named %s", s.name);
        assert_string_not_equal(s.name, "groups");
        for (const vt_opt *o = s.opts; o && o->key; o++, keys++) {
            char key[VT_RECIPE_KEY_MAX], value[256], again[256], set[400];
            assert_true(vt_recipe_full_key(key, s.name, o->key));
            if (vt_recipe_key(r, key, &other) != o) fail_msg("%s is hidden", key);
            if (!*s.name && vt_recipe_section_named(r, key, &other)) fail_msg("%s is a key and a section", key);
            vt_opt_value(o, s.params, value, sizeof value);
            snprintf(set, sizeof set, "%s=%s", key, value);
            if (vt_recipe_set(r, set, &e) != VT_OK) fail_msg("default of %s: %s", key, e.text);
            vt_opt_value(o, s.params, again, sizeof again);
            assert_string_equal(value, again);
        }
    }
    assert_true(keys > 60 && keys < 250); /* the search for near names holds 256 */
    vt_recipe_free(r);
}

/* ---- groups ---- */

static void test_groups(void **state) {
    (void)state;
    vt_recipe *r = of("groups:\n  '*.norm?.*': 1e-3\n  '*.bias': 0\n  '*': 0.25\n", true);
    assert_true(vt_recipe_weight_decay(r, "blocks.0.norm1.bias") == 1e-3); /* the first that fits */
    assert_true(vt_recipe_weight_decay(r, "head.bias") == 0);
    assert_true(vt_recipe_weight_decay(r, "head.weight") == 0.25);
    set(r, "groups.*.bias=0.5"); /* in its place */
    assert_true(r->n_groups == 3 && vt_recipe_weight_decay(r, "head.bias") == 0.5);
    vt_recipe_free(r);
    r = fresh();
    set(r, "weight_decay=0.125");
    vt_err e = {0};
    for (int i = 0; i < VT_RECIPE_GROUPS; i++) {
        char text[40];
        snprintf(text, sizeof text, "groups.t%d=%d", i, i % 10);
        set(r, text);
    }
    assert_true(vt_recipe_weight_decay(r, "t7") == 7 && vt_recipe_weight_decay(r, "head.bias") == 0.125);
    t_says(vt_recipe_set(r, "groups.more=1", &e), VT_E_USAGE, &e, "groups.more", "at most 16");
    vt_recipe_free(r);
}

/* ---- text and difference ---- */

static char *text_of(const vt_recipe *r) {
    char *t = vt_recipe_text(r);
    assert_non_null(t);
    return t;
}

/* Read again and resolved again, the text stays. */
static void same_again(const char *text) {
    vt_recipe *r = of(text, true);
    char *again = text_of(r), diff[200];
    assert_string_equal(text, again);
    vt_recipe_diff(text, again, diff, sizeof diff);
    assert_string_equal(diff, "");
    free(again);
    vt_recipe_free(r);
}

static void test_text(void **state) {
    (void)state;
    vt_recipe *r = of("", true);
    char *t = text_of(r);
    same_again(t);
    assert_int_equal(strncmp(t, "name: \"\"\nseed: 0\nepochs: 40\n", 28), 0);
    assert_non_null(strstr(t, "\nmodel:\n  preset: \"\"\n  attn: \"\"\n  image: auto\n"));
    assert_non_null(strstr(t, "\n  drops: \"0.875,0.95\"\n"));
    assert_non_null(strstr(t, "\nsgd:\n  momentum: 0.9\n"));
    assert_null(strstr(t, "\nattack:")); /* not in use */
    assert_null(strstr(t, "adamw"));
    assert_null(strstr(t, "msvp"));
    assert_null(strstr(t, "groups"));
    free(t);
    vt_recipe_free(r);
    r = of("name: \"\\\"q\\\" \\\\ \\u00e9 \\U0001F600: #\"\nobjective: trades\noptimiser: adamw\nattention_optimiser: "
           "md\n"
           "attack: {eps: 8/255}\naugment: {mix_prob: 0}\nlr: 0.1234567890123456789\n"
           "model: {mean: [0.4914, 0.4822, 0.4465], std: 1/7, qkv_bias: false, pool: token}\n"
           "msvp: {lambda: [1e-5, 0, 2/255]}\ngate: {l1: 1e-4}\n"
           "groups: {'a: \"b\" \\': 0, '*': 8/255, '#': 1e-3}\n",
           true);
    t = text_of(r);
    same_again(t);
    assert_non_null(strstr(t, "name: \"\\\"q\\\" \\\\ \xc3\xa9 \xf0\x9f\x98\x80: #\"\n"));
    assert_non_null(
        strstr(t, "\nattack:\n  eps: 8/255\n  norm: linf\n  spec: \"pgd:steps=10,alpha=2/255,random_start=0\"\n"));
    assert_non_null(strstr(t, "\n  std: 0.14285714285714285,0.14285714285714285,0.14285714285714285\n"));
    assert_non_null(strstr(t, "\n  qkv_bias: 0\n  pool: token\n"));
    assert_non_null(strstr(t, "\ngroups:\n  \"a: \\\"b\\\" \\\\\": 0\n  \"*\": 8/255\n  \"#\": 0.001\n"));
    static const char *const sections[] = {"\ntrades:\n", "\nadamw:\n", "\nmd:\n", "\nmsvp:\n", "\ngate:\n"};
    for (size_t i = 0; i < T_COUNT(sections); i++) assert_non_null(strstr(t, sections[i]));
    assert_null(strstr(t, "\nsgd:\n"));
    free(t);
    vt_recipe_free(r);
    r = of("probe: {eps: 2/255}\nattack: {norm: l2}", true); /* the probe's norm stands in the attack's section */
    t = text_of(r);
    same_again(t);
    assert_non_null(strstr(t, "\n  norm: l2\n"));
    free(t);
    vt_recipe_free(r);
}

/* model.forms: the table's words in the table's order, moved to a key of their own where there is one; nothing is
 * written where it is not used. */
static void test_model_forms(void **state) {
    (void)state;
    static const struct {
        const char *text, *line;
        int pool, native;
    } rows[] = {{"", NULL, -1, -1},
                {"model.forms: ''", NULL, -1, -1},
                {"model: {forms: [post_norm=1, norm=center]}", "\n  forms: \"norm=center post_norm=1\"\n", -1, -1},
                {"model.forms: '  act=nn.ReLU   norm=layer '", "\n  forms: \"norm=layer act=relu\"\n", -1, -1},
                {"model: {forms: ['stage_depth=2,2', eta=1e-5]}", "\n  forms: \"stage_depth=2,2,0,0 eta=1e-05\"\n", -1,
                 -1},
                {"model: {forms: pool=avg native=64, pool: avg}", NULL, 1, 64},
                {"model.forms: pool=token act=relu", "\n  forms: \"act=relu\"\n", 0, -1}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_recipe *r = of(rows[i].text, true);
        char *t = text_of(r);
        same_again(t);
        assert_true(rows[i].line ? strstr(t, rows[i].line) != NULL : !strstr(t, "forms"));
        assert_null(strstr(t, "\n  part:"));
        assert_int_equal(r->model.pool, rows[i].pool);
        assert_int_equal(r->model.native, rows[i].native);
        free(t);
        vt_recipe_free(r);
    }
    vt_recipe *r = of_set("model.forms: norm=center", "model.forms=norm=none post_norm=0"); /* --set replaces it all */
    assert_string_equal(r->model.forms, "norm=none post_norm=0");
    vt_recipe_free(r);
    static const refusal bad[] =
        {{"model.forms: nrom=batch", VT_E_UNKNOWN, "model.forms: 'nrom'", "did you mean 'norm'"},
         {"model.forms: norm=batched", VT_E_USAGE, "norm is 'batched'", "layer|batch|center|none"},
         {"model.forms: norm", VT_E_USAGE, "model.forms", "key=value"},
         {"model.forms: norm=none act=relu norm=none", VT_E_USAGE, "model.forms", "norm is given twice"},
         {"model: {forms: pool=avg, pool: token}", VT_E_USAGE, "model.forms says pool=avg",
          "model.pool says otherwise"},
         {"model: {forms: native=32, native: 0}", VT_E_USAGE, "native=32", "model.native says otherwise"},
         {"model: {forms: native_filter=bicubic, native_filter: nearest}", VT_E_USAGE, "native_filter=bicubic",
          "model.native_filter"}};
    refuses(bad, T_COUNT(bad), true);
    static const refusal lists[] = {{"model: {forms: [norm=none act=relu]}", VT_E_USAGE, "model.forms", "one word"},
                                    {"model: {forms: {norm: none}}", VT_E_FORMAT, "model.forms", "nested too deeply"},
                                    {"model: {attn: [dot]}", VT_E_USAGE, "model.attn", "not a list"}};
    refuses(lists, T_COUNT(lists), false);
}

static void test_diff(void **state) {
    (void)state;
    char out[300], small[24];
    vt_recipe *r = of("objective: at\nattack.eps: 8/255\ngroups: {'a: b': 1}", true), *q = of("seed: 7", true);
    char *a = text_of(r);
    set(r, "attack.eps=4/255");
    set(r, "epochs=9");
    set(r, "groups.a: b=2");
    char *b = text_of(r), *c = text_of(q);
    vt_recipe_diff(a, b, out, sizeof out);
    assert_string_equal(out, "epochs (40 -> 9), attack.eps (8/255 -> 4/255), groups.a: b (1 -> 2)");
    vt_recipe_diff(a, b, small, sizeof small);
    assert_string_equal(small, "epochs (40 -> 9), ...");
    vt_recipe_diff(a, b, small, 4);
    assert_true(strlen(small) < 4);
    vt_recipe_diff(a, c, out, sizeof out); /* sections that only one has */
    assert_non_null(strstr(out, "objective (at -> ce)"));
    assert_non_null(strstr(out, "attack.eps (8/255 -> none)"));
    vt_recipe_diff("x: 1\n", "y:   2\nz: 3", out, sizeof out);
    assert_string_equal(out, "y (none -> 2), z (none -> 3), x (1 -> none)");
    vt_recipe_diff("\"x", ":\n", out, sizeof out); /* no canonical text, no harm */
    vt_recipe_diff("", "", out, 0);
    free(a), free(b), free(c);
    vt_recipe_free(r), vt_recipe_free(q);
}

/* Every key with its limits, in lines of 110 columns. */
static void test_help(void **state) {
    (void)state;
    char *text = NULL, *save = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    vt_recipe_help(f);
    fclose(f);
    assert_non_null(
        strstr(text, "\n  epochs                   passes over the training images [1 to 100000; default 40]\n"));
    assert_non_null(strstr(text, "[linf|l2; default linf]\n"));
    vt_recipe_section s;
    for (int i = 0; vt_recipe_section_at(NULL, i, &s); i++)
        for (const vt_opt *o = s.opts; o && o->key; o++) {
            char line[120];
            snprintf(line, sizeof line, "\n  %s%s%s ", s.name, *s.name ? "." : "", o->key);
            if (!strstr(text, line)) fail_msg("the help leaves out %s", line + 3);
        }
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strlen(line) > 110) fail_msg("too wide: %s", line);
    free(text);
}

/* ---- schedule ---- */

/* A few roundings of numbers near 0.1. */
static const double LR_TOL = 1e-16;

static double lr_at(const char *text, double t) {
    vt_recipe *r = of(text, true);
    double lr = vt_recipe_lr(r, t);
    vt_recipe_free(r);
    return lr;
}

static void test_schedule(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        double t, lr;
    } all[] = {
        {"", 0, 0.1}, /* Mo et al.: / 10 at 5 and at 2 epochs of 40 before the end */
        {"", 34.999 / 40, 0.1},
        {"", 35.0 / 40, 0.01},
        {"", 37.999 / 40, 0.01},
        {"", 38.0 / 40, 0.001},
        {"", 1, 0.001},
        {"schedule.kind: constant", 0.99, 0.1},
        {"schedule: {drops: [0.5], factor: 0.5}\nlr: 0.2", 0.5, 0.1},
        {"schedule: {drops: []}", 1, 0.1},
        /* SpecFormer: 1e-4 + (0.1 - 1e-4) (1 + cos(pi t)) / 2 */
        {"schedule: {kind: cosine, min_lr: 1e-4}", 0, 0.1},
        {"schedule: {kind: cosine, min_lr: 1e-4}", 0.5, (0.1 + 1e-4) / 2},
        {"schedule: {kind: cosine, min_lr: 1e-4}", 1.0 / 3, 1e-4 + 0.75 * (0.1 - 1e-4)},
        {"schedule: {kind: cosine, min_lr: 1e-4}", 1, 1e-4},
        {"schedule: {kind: cosine}\nlr: 2e-3", 0.5, 1e-3},
        {"schedule: {kind: constant, warmup: 0.2}", 0, 1e-4}, /* a thousandth */
        {"schedule: {kind: constant, warmup: 0.2}", 0.1, 0.1 * (1 + 1e-3) / 2},
        {"schedule: {kind: constant, warmup: 0.2}", 0.2, 0.1},
        {"schedule: {kind: constant, warmup: 0.2}", 0.3, 0.1},
        {"schedule: {kind: cosine, warmup: 1}", 0.5, 0.05 * (1 + 1e-3) / 2},
        /* torch.optim.lr_scheduler.OneCycleLR(max_lr=0.1, total_steps=101, pct_start=0.3): its peak is at step 29.3 */
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 0, 0.0040000000000000036},
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 0.1, 0.02904739632130776},
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 0.29, 0.09997516976618613},
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 0.3, 0.09997581421134295},
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 0.65, 0.049222612514344836},
        {"schedule: {kind: onecycle, warmup: 0.293, min_lr: 4e-7}", 1, 4e-7},
    };
    for (size_t i = 0; i < T_COUNT(all); i++)
        t_le(fabs(lr_at(all[i].recipe, all[i].t) - all[i].lr), LR_TOL, "'%s' at %g", all[i].recipe, all[i].t);
}

/* ---- files ---- */

static void test_files(void **state) {
    (void)state;
    vt_err e = {0};
    glob_t found;
    assert_int_equal(glob("recipes/*.yaml", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 8);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        vt_recipe *r = fresh();
        if (vt_recipe_read(r, found.gl_pathv[i], &e) != VT_OK || vt_recipe_resolve(r, &e) != VT_OK)
            fail_msg("%s", e.text);
        assert_true(*r->top.name &&
                    (r->top.batch == 64 || (r->top.batch == 256 && !strcmp(r->top.objective, "margin")) ||
                     (r->top.batch == 128 && !strcmp(r->top.objective, "ibp"))));
        char *t = text_of(r);
        same_again(t);
        free(t);
        vt_recipe_free(r);
    }
    globfree(&found);
    vt_recipe *r = fresh();
    t_says(vt_recipe_read(r, "recipes/none.yaml", &e), VT_E_IO, &e, "recipes/none.yaml", "No such file");
    t_says(vt_recipe_read(r, "recipes", &e), VT_E_IO, &e, "recipes", "directory");
    vt_recipe_free(r);
}

/* The published settings stand in the recipes that carry their names. */
static void test_published(void **state) {
    (void)state;
    vt_err e = {0};
    vt_recipe *r = fresh();
    assert_int_equal(vt_recipe_read(r, "recipes/mo_at_cifar10.yaml", &e), VT_OK);
    assert_int_equal(vt_recipe_resolve(r, &e), VT_OK);
    vt_recipe *d = of("objective: at\nattack.eps: 8/255", true); /* the defaults are theirs too */
    assert_memory_equal(&r->augment, &d->augment, sizeof r->augment);
    assert_true(r->top.epochs == d->top.epochs && r->top.lr == d->top.lr && r->top.clip == d->top.clip);
    assert_true(r->n_drops == 2 && r->drops[0] == d->drops[0] && r->drops[1] == d->drops[1]);
    assert_string_equal(r->attack.spec, "pgd:steps=10,alpha=2/255");
    vt_recipe_free(d);
    vt_recipe_free(r);
    r = fresh();
    assert_int_equal(vt_recipe_read(r, "recipes/specformer_at_cifar10.yaml", &e), VT_OK);
    assert_int_equal(vt_recipe_resolve(r, &e), VT_OK);
    const double *lambda = vt_recipe_params(r, VT_RECIPE_PENALTY, "msvp");
    assert_true(lambda[0] == 1e-5 && lambda[1] == 1e-5 && lambda[2] == 1e-5);
    t_le(fabs(vt_recipe_lr(r, 1) - 1e-4), LR_TOL, "the end of the cosine");
    vt_recipe_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),    cmocka_unit_test(test_keys),

        cmocka_unit_test(test_groups),   cmocka_unit_test(test_text),      cmocka_unit_test(test_model_forms),
        cmocka_unit_test(test_diff),     cmocka_unit_test(test_help),      cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
