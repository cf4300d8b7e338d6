/* SPDX-License-Identifier: MIT */
/* src/train/recipe*: what is refused, of YAML, of --set, and of keys that contradict each other. */
#include "recipe_fixture.h"

static void test_wrong_values(void **state) {
    (void)state;
    static const refusal all[] = {
        {"seed: 0\nepochs: 0\n", VT_E_USAGE, "r.yaml:2: ", "epochs is 0, must be between 1 and 100000"},
        {"epochs: 1.5", VT_E_USAGE, "r.yaml:1: ", "epochs is '1.5', must be a whole number between 1 and 100000"},
        {"epochs:", VT_E_USAGE, "epochs", "no value"},
        {"seed: 2147483648", VT_E_USAGE, "seed is 2147483648", "0 and 2147483647"},
        {"batch: 1000001", VT_E_USAGE, "batch is 1000001", "1 and 1000000"},
        {"micro_batch: 4097", VT_E_USAGE, "micro_batch is 4097", "1 and 4096"},
        {"lr: 0", VT_E_USAGE, "lr is 0", "and 1000"},
        {"lr: nan", VT_E_USAGE, "lr is 'nan'", "not a number"},
        {"weight_decay: -1", VT_E_USAGE, "weight_decay is -1", "0 and 10"},
        {"clip: 1e7", VT_E_USAGE, "clip is 1e7", "0 and 1000000"},
        {"ema: 1", VT_E_USAGE, "ema is 1", "0 and 0.99999999"},
        {"label_smoothing: 1", VT_E_USAGE, "label_smoothing is 1", "0 and 0.99"},
        {"attack:\n  # why\n  eps: 8/25x\n", VT_E_USAGE, "r.yaml:3: ", "attack.eps is '8/25x'"},
        {"attack: {eps: -1}", VT_E_USAGE, "attack.eps is -1", "0 and 1000000"},
        {"attack: {norm: l1}", VT_E_USAGE, "attack.norm is 'l1'", "linf|l2"},
        {"attack: {ard: 2}", VT_E_USAGE, "attack.ard is '2'", "0 or 1"},
        {"attack: {warm: 1.1}", VT_E_USAGE, "attack.warm is 1.1", "0 and 1"},
        {"augment: {flip: 2}", VT_E_USAGE, "augment.flip is 2", "0 and 1"},
        {"augment: {mix_prob: 2}", VT_E_USAGE, "augment.mix_prob is 2", "0 and 1"},
        {"augment: {mixup_alpha: -1}", VT_E_USAGE, "augment.mixup_alpha is -1", "0 and 100"},
        {"augment: {gaussian: -1}", VT_E_USAGE, "augment.gaussian is -1", "0 and 100"},
        {"augment: {crop: 1025}", VT_E_USAGE, "augment.crop is 1025", "0 and 1024"},
        {"schedule: {kind: linear}", VT_E_USAGE, "schedule.kind is 'linear'", "constant|step|cosine|onecycle"},
        {"schedule: {factor: 0}", VT_E_USAGE, "schedule.factor is 0", "and 1"},
        {"model: {image: 0}", VT_E_USAGE, "model.image is 0", "1 and 4096"},
        {"model: {std: [1, 1]}", VT_E_USAGE, "model.std is '1,1'", "three numbers"},
        {"model: {std: [1, 1, 0]}", VT_E_USAGE, "model.std is 1,1,0", "and 1000"},
        {"msvp.lambda: 2", VT_E_USAGE, "msvp.lambda is 2", "0 and 1"},
        {"msvp: {lambda: [1, 0, 0, 0]}", VT_E_USAGE, "msvp.lambda", "three numbers"},
        {"schedule:\n  drops: [0.5,\n    '']\n", VT_E_USAGE, "r.yaml:3: the list of schedule.drops holds ''",
         "one number"},
        {"msvp: {lambda: ['1,0', 0]}", VT_E_USAGE, "r.yaml:1: the list of msvp.lambda holds '1,0'", "one number"},
        {"objective: abcdefghijklmnopqrstuvwxyz", VT_E_USAGE, "objective", "23 bytes"},
        {"groups: {'*.bias': 11}", VT_E_USAGE, "groups.*.bias is 11", "0 and 10"},
        {"groups: {'': 1}", VT_E_USAGE, "groups.", "between 1 and 63"},
        {"name: \"a\\tb\"", VT_E_USAGE, "r.yaml:1: name: byte 0x09", "not printable"},
        {"name: \"a\\u2028b\"", VT_E_USAGE, "name", "not printable"},
        {"name: \"a\\0b\"", VT_E_USAGE, "r.yaml:1: name", "NUL"},
        {"name: |\n  two\n  lines\n", VT_E_USAGE, "name", "not printable"},
    };
    refuses(all, T_COUNT(all), false);
}

static void test_unknown_keys(void **state) {
    (void)state;
    static const refusal all[] = {
        {"seed: 1\nepoch: 3\n", VT_E_UNKNOWN, "r.yaml:2: there is no key 'epoch'", "did you mean 'epochs'?"},
        {"msvp:\n  lamda: 1\n", VT_E_UNKNOWN, "r.yaml:2: ", "'msvp.lambda'?"},
        {"msvp.lamda: 1\n", VT_E_UNKNOWN, "'msvp.lamda'", "did you mean 'msvp.lambda'?"},
        {"eps: 8/255", VT_E_UNKNOWN, "'eps'", "'attack.eps'"},
        {"augment: {eps: 8/255}", VT_E_UNKNOWN, "'augment.eps'", "'attack.eps'"},
        {"mix_prob: 0", VT_E_UNKNOWN, "'mix_prob'", "did you mean 'augment.mix_prob'?"},
        {"training: {epochs: 3}", VT_E_UNKNOWN, "r.yaml:1: there is no section 'training'", "vitrine help recipe"},
        {"atack:\n  eps: 1\n", VT_E_UNKNOWN, "no section 'atack'", "did you mean 'attack'?"},
        {"sgdm: {momentum: 0}", VT_E_UNKNOWN, "'sgdm'", "'sgd'"},
        {"sdg.momentum: 0", VT_E_UNKNOWN, "'sdg.momentum'", "did you mean 'sgd.momentum'?"},
        {"probe: {zzzzzzzzzzz: 1}", VT_E_UNKNOWN, "'probe.zzzzzzzzzzz'", "probe has: images, split, eps, attack"},
        {"at: {zzzzzzzzzzz: 1}", VT_E_UNKNOWN, "'at.zzzzzzzzzzz'", "at has: no keys"},
        {"wholly-different: 1", VT_E_UNKNOWN, "'wholly-different'", "vitrine help recipe"},
        {".eps: 1", VT_E_UNKNOWN, "'.eps'", "attack.eps"},
        {"attack.: 1", VT_E_UNKNOWN, "'attack.'", ""},
        {"'': 1", VT_E_UNKNOWN, "r.yaml:1", "''"},
        {"<<: 1", VT_E_UNKNOWN, "'<<'", ""},
    };
    refuses(all, T_COUNT(all), false);
    assert_int_equal(vt_exit_code(VT_E_UNKNOWN), 2);
}

static void test_wrong_yaml(void **state) {
    (void)state;
    static const refusal all[] = {
        {"epochs: 3\nname: 'a\n", VT_E_FORMAT, "r.yaml:", "not YAML: "},
        {"epochs: '3'\n  batch: 1\n", VT_E_FORMAT, "r.yaml:2: ", "not YAML: "},
        {"epochs: 3\nname: a\001b\n", VT_E_FORMAT, "r.yaml:2: ", "not YAML: control characters"},
        {"epochs: 3\nname: \xff\n", VT_E_FORMAT, "r.yaml:2: ", "not YAML: "},
        {"- epochs\n", VT_E_FORMAT, "r.yaml:1: ", "KEY: VALUE"},
        {"epochs\n", VT_E_FORMAT, "r.yaml:1: ", "KEY: VALUE"},
        {"epochs: 3\n---\nepochs: 4\n", VT_E_FORMAT, "r.yaml:2: ", "second document"},
        {"seed: 1\nepochs: &a 3\n", VT_E_FORMAT, "r.yaml:2: ", "anchors (&a)"},
        {"seed: 1\nattack: &a {eps: 1}\n", VT_E_FORMAT, "r.yaml:2: ", "anchors (&a)"},
        {"epochs: *a\n", VT_E_FORMAT, "r.yaml:1: ", "aliases"},
        {"epochs: !!int 3\n", VT_E_FORMAT, "r.yaml:1: ", "tags"},
        {"%TAG !e! tag:e,2000:\n---\nepochs: 3\n", VT_E_FORMAT, "r.yaml:", "tags"},
        {"attack:\n  eps: {a: 1}\n", VT_E_FORMAT, "r.yaml:2: attack.eps", "nested too deeply"},
        {"msvp: {lambda: [1, [2], 3]}", VT_E_FORMAT, "msvp.lambda", "nested too deeply"},
        {"[a, b]: 1", VT_E_FORMAT, "r.yaml:1: ", "a key must be a word"},
        {"attack: 3", VT_E_USAGE, "attack is a section", "attack.KEY"},
        {"attack: [1]", VT_E_USAGE, "attack is a section", "attack.KEY"},
        {"epochs: {a: 1}", VT_E_USAGE, "epochs takes a value", "not a section"},
        {"epochs: [1]", VT_E_USAGE, "epochs takes one value", "not a list"},
        {"epochs: 3\nbatch: 2\nepochs: 3\n", VT_E_USAGE, "r.yaml:3: epochs is given twice", "line 1"},
        {"attack:\n  eps: 1\n  eps: 1\n", VT_E_USAGE, "r.yaml:3: eps is given twice", "line 2"},
        {"attack.eps: 1\nattack:\n  eps: 1\n", VT_E_USAGE, "r.yaml:3: attack.eps is given twice", "line 1"},
        {"attack: {eps: 1}\nprobe:\nattack: {norm: l2}\n", VT_E_USAGE, "r.yaml:3: attack is given twice", "line 1"},
        {"groups: {'*.a': 1, '*.a': 2}\n", VT_E_USAGE, "*.a is given twice", "line 1"},
    };
    refuses(all, T_COUNT(all), false);
}

static void test_long(void **state) {
    (void)state;
    enum { BIG = (1 << 20) + 1 };
    char *text = malloc(BIG + 1), path[400], assignment[400];
    assert_non_null(text);
    vt_recipe *r = fresh();
    vt_err e = {0};
    memset(text, '\n', BIG);
    assert_int_equal(vt_recipe_parse(r, text, BIG - 1, "r.yaml", &e), VT_OK);
    t_says(vt_recipe_parse(r, text, BIG, "r.yaml", &e), VT_E_FORMAT, &e, "r.yaml", "1048576 bytes");
    memset(text, 'k', 900);
    memcpy(text + 900, ": 1\n", 5);
    t_says(parse(r, text, &e), VT_E_USAGE, &e, "r.yaml:1: a key has 900 bytes", "at most 95");
    memset(text, 'k', 5000);
    memcpy(text, "name: ", 6);
    memcpy(text + 3000, "\n", 2);
    t_says(parse(r, text, &e), VT_E_USAGE, &e, "r.yaml:1: the value of name has 2994 bytes", "at most 255");
    memcpy(text, "schedule.drops: [0.1", 20);
    for (int i = 20; i < 4996; i += 4) memcpy(text + i, ",0.2", 4);
    memcpy(text + 4996, "]\n", 3);
    t_says(parse(r, text, &e), VT_E_USAGE, &e, "schedule.drops", "more than 255 bytes");
    t_says(vt_recipe_parse(r, "a\0b", 3, "r.yaml", &e), VT_E_FORMAT, &e, "r.yaml:1", "control characters");
    memset(path, 'p', sizeof path); /* a path that would fill the sentence shows its end */
    memcpy(path + sizeof path - 8, "/r.yaml", 8);
    t_says(vt_recipe_parse(r, "epoch: 3", 8, path, &e), VT_E_UNKNOWN, &e, "pp/r.yaml:1: ", "'epochs'?");
    memset(assignment, 'k', sizeof assignment);
    memcpy(assignment + sizeof assignment - 3, "=1", 3);
    t_says(vt_recipe_set(r, assignment, &e), VT_E_UNKNOWN, &e, "397 bytes", "at most 95");
    memcpy(assignment, "name=", 5);
    t_says(vt_recipe_set(r, assignment, &e), VT_E_USAGE, &e, "name has 394 bytes", "at most 255");
    free(text);
    vt_recipe_free(r);
}

static void test_set_refusals(void **state) {
    (void)state;
    vt_recipe *r = fresh();
    vt_err e = {0};
    static const refusal all[] = {
        {"epochs", VT_E_USAGE, "'epochs'", "KEY=VALUE"},
        {"=3", VT_E_USAGE, "'=3'", "KEY=VALUE"},
        {"epochs=", VT_E_USAGE, "--set: ", "epochs has no value"},
        {"epochs=0", VT_E_USAGE, "--set: ", "epochs is 0, must be between 1 and 100000"},
        {"epochs =3", VT_E_UNKNOWN, "'epochs '", "'epochs'"},
        {"epoch=3", VT_E_UNKNOWN, "--set: there is no key 'epoch'", "'epochs'"},
        {"attack=3", VT_E_UNKNOWN, "'attack' is a section", "attack.KEY"},
        {"groups=3", VT_E_UNKNOWN, "'groups' is a section", "groups.KEY"},
        {"groups.=3", VT_E_USAGE, "groups.", "between 1 and 63"},
        {"name=\xff", VT_E_USAGE, "name", "byte 0xff of the value"},
        {"name=\xc0\x80", VT_E_USAGE, "name", "byte 0xc0"},
        {"name=\xed\xa0\x80", VT_E_USAGE, "name", "byte 0xed"},
        {"name=\xf4\x90\x80\x80", VT_E_USAGE, "name", "byte 0xf4"},
        {"name=a\xe2\x82", VT_E_USAGE, "name", "byte 0xe2"},
        {"name=a\nb", VT_E_USAGE, "name", "byte 0x0a"},
        {"na\xc3me=a", VT_E_USAGE, "byte 0xc3", "of the key"},
    };
    for (size_t i = 0; i < T_COUNT(all); i++)
        t_says(vt_recipe_set(r, all[i].text, &e), all[i].status, &e, all[i].a, all[i].b);
    vt_recipe_free(r);
}

static void test_contradictions(void **state) {
    (void)state;
#define AT "objective: at\nattack.eps: 8/255\n"
#define PAIRS "attack.eps: 8/255\naugment.mix_prob: 0\n"
    static const refusal all[] = {
        {"objective: trade", VT_E_UNKNOWN, "unknown objective 'trade'", "'trades'"},
        {"objective: zzzzzzzzz", VT_E_UNKNOWN, "unknown objective 'zzzzzzzzz'", "at, ce"},
        {"optimiser: adam", VT_E_UNKNOWN, "unknown optimiser 'adam'", "'adamw'"},
        {"optimiser: same", VT_E_UNKNOWN, "unknown optimiser 'same'", ""},
        {"attention_optimiser: sane", VT_E_UNKNOWN, "unknown attention_optimiser 'sane'", "'same'"},
        {"objective: at", VT_E_USAGE, "attack.eps is missing: objective at needs a radius in pixel units",
         "--set attack.eps=8/255"},
        {"objective: at\nattack.eps: 8", VT_E_USAGE, "attack.eps is 8, must be at most 1", "8/255"},
        {"probe.eps: 8", VT_E_USAGE, "probe.eps is 8, must be at most 1", "8/255"},
        {AT "attack.spec: pdg", VT_E_UNKNOWN, "attack.spec", "'pgd'"},
        {AT "attack.spec: 'pgd:steps=0'", VT_E_USAGE, "attack.spec", "steps is 0"},
        {AT "attack.spec: autoattack", VT_E_USAGE, "attack.spec is 'autoattack'", "several stages"},
        {AT "attack.spec: square", VT_E_USAGE, "attack.spec is 'square'", "no gradients"},
        {"attack: {spec: pdg}", VT_E_UNKNOWN, "attack.spec", "'pgd'"},
        {"probe.attack: autoattack", VT_E_USAGE, "probe.attack is 'autoattack'", "several stages"},
        {"probe.attack: ''", VT_E_UNKNOWN, "probe.attack", "unknown attack"},
        {AT "batch: 63", VT_E_USAGE, "batch is 63, must be even", "augment.mix_prob is above 0 (it is 0.3)"},
        {"objective: trades\nattack.eps: 8/255", VT_E_USAGE, "objective trades", "augment.mix_prob=0 (it is 0.3)"},
        {"objective: mart\nattack.eps: 8/255\naugment.mix_prob: 0\nlabel_smoothing: 0.1", VT_E_USAGE, "objective mart",
         "label_smoothing=0 (it is 0.1)"},
        {AT "augment.gaussian: 0.25", VT_E_USAGE, "augment.gaussian is 0.25, must be 0", "inner attack of objective"},
        {"attack.ard: 1", VT_E_USAGE, "attack.ard is 1", "objective ce has no inner attack"},
        {"attack: {prm: 1, eps: 1/255}", VT_E_USAGE, "attack.prm is 1", "objective ce has no inner attack"},
        {AT "attack: {ard: 1, spec: fgsm}", VT_E_USAGE, "attack.ard is 1", "'fgsm' has no steps to mask"},
        {AT "attack: {prm: 1, spec: fgsm}", VT_E_USAGE, "attack.prm is 1", "'fgsm' has no steps to mask"},
        {AT "attack: {prm: 1, spec: 'apgd-ce:steps=3'}", VT_E_USAGE, "attack.prm is 1", "no steps to mask"},
        {PAIRS "objective: trades\nattack.spec: 'pgd:steps=2'", VT_E_USAGE, "objective trades", "add random_start=0"},
        {PAIRS "objective: mart\nattack.spec: 'pgd:steps=2'", VT_E_USAGE, "objective mart", "add random_start=0"},
        {PAIRS "objective: trades\nattack.spec: 'pgd:steps=2,random_start=1'", VT_E_USAGE, "objective trades",
         "random_start=0"},
        {AT "attack: {ramp_begin: 0.5, ramp_end: 0.25}", VT_E_USAGE, "attack.ramp_begin is 0.5", "(0.25)"},
        {"batch: 4", VT_E_USAGE, "micro_batch is 8", "batch (4)"},
        {"schedule: {kind: cosine, min_lr: 0.1}", VT_E_USAGE, "schedule.min_lr is 0.1", "lr (0.1)"},
        {"schedule: {kind: onecycle, warmup: 0.3, min_lr: 0.1}", VT_E_USAGE, "schedule.min_lr is 0.1", "lr (0.1)"},
        {"schedule: {kind: onecycle}", VT_E_USAGE, "schedule.warmup is 0", "below 1 with onecycle"},
        {"schedule: {kind: onecycle, warmup: 1}", VT_E_USAGE, "schedule.warmup is 1", "below 1 with onecycle"},
        {"attack: {noise: 2}", VT_E_USAGE, "attack.noise is 2", "objective ce has no inner attack"},
        {AT "attack: {noise: 2, spec: 'pgd:steps=1'}", VT_E_USAGE, "attack.noise is 2", "add random_start=0"},
        {"extra: 1.5", VT_E_USAGE, "extra is '1.5'", "between 0 and 1"},
        {"extra: [0.5, 1]", VT_E_USAGE, "extra is '0.5,1'", "between 0 and 1"},
        {"extra: 0", VT_E_USAGE, "extra is '0'", "between 0 and 1"},
        {"extra: [0.5, 0.5]", VT_E_USAGE, "extra is '0.5,0.5'", "no image of a batch of 64 to the first"},
        {"extra: 0.995", VT_E_USAGE, "extra is '0.995'", "no image of a batch of 64 to the first"},
        {"extra: 0.005", VT_E_USAGE, "extra is '0.005'", "0.005 of a batch of 64 is no image"},
        {"extra: [.1, .1, .1, .1, .1]", VT_E_USAGE, "extra is '.1,.1,.1,.1,.1'", "at most 4"},
        {"schedule.drops: '0.5,0.5'", VT_E_USAGE, "schedule.drops is '0.5,0.5'", "ascending"},
        {"schedule.drops: '0'", VT_E_USAGE, "schedule.drops is '0'", "between 0 and 1"},
        {"schedule.drops: '1'", VT_E_USAGE, "schedule.drops is '1'", "between 0 and 1"},
        {"schedule.drops: '0.5,'", VT_E_USAGE, "schedule.drops is '0.5,'", "commas"},
        {"schedule.drops: ',0.5'", VT_E_USAGE, "schedule.drops is ',0.5'", "commas"},
        {"schedule.drops: [.1, .2, .3, .4, .5, .6, .7, .8, .9]", VT_E_USAGE, "schedule.drops", "at most 8"},
        {"model.mean: 0.5", VT_E_USAGE, "model.mean is given", "model.std is not"},
        {"model.std: 0.5", VT_E_USAGE, "model.std is given", "model.mean is not"},
        {"model.preset: vit_cifar_dim192_depth8", VT_E_UNKNOWN, "model.preset", "'vit_cifar_dim192_depth9'"},
        {"model.attn: dit", VT_E_UNKNOWN, "model.attn is 'dit'", "'dot'"},
        {"init.sha256: abc", VT_E_USAGE, "init.sha256 is 'abc'", "64 hexadecimal"},
    };
    refuses(all, T_COUNT(all), true);
    /* neighbours of the above that are fine */
    static const char *const good[] = {
        "batch: 63\naugment.mix_prob: 0",
        "attack.eps: 1",
        "attack: {eps: 8, norm: l2}",
        "objective: trades\nattack.eps: 8/255\naugment.mix_prob: 0",
        "objective: at\nattack: {eps: 8/255, spec: fgsm, ramp_begin: 0.25, ramp_end: 0.25}",
        "schedule: {kind: step, min_lr: 0.1, drops: ''}",
        "schedule.drops: [.1, .2, .3, .4, .5, .6, .7, .8]",
        "schedule.drops: []",
        "model: {mean: 0, std: 1}",
        AT "attack: {ard: 1, prm: 1, spec: 'pgd:steps=2'}",
        AT "attack.spec: fgsm",
        PAIRS "objective: trades\nattack.spec: 'pgd:steps=2,random_start=0'",
        PAIRS "objective: trades\nattack.spec: fgsm",
        PAIRS "objective: mart",
        "init.sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    };
    for (size_t i = 0; i < T_COUNT(good); i++) vt_recipe_free(of(good[i], true));
#undef AT
#undef PAIRS
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_unknown_keys), cmocka_unit_test(test_wrong_yaml),
        cmocka_unit_test(test_long),         cmocka_unit_test(test_set_refusals), cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests_name("recipe refusals", tests, NULL, NULL);
}
