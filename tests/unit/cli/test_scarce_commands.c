/* SPDX-License-Identifier: MIT */
/* Every command with each of its allocations refused once (scarce.h). Either it fails, with VT_E_MEMORY and one
 * sentence, or it did without: then its words and files are as ever. Nothing is leaked, nothing half-written stays, and
 * what it left can be gone on from. */
#include "scarce.h"

#include <ctype.h>
#include <dlfcn.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <openssl/rand.h>
#include <time.h>
#include "cli/cli.h"
#include "base/files.h"
#include "tensors/tensors.h"
#include "linalg/gemm.h"
#include "tools/draw.h"

#define MODEL "w.safetensors --data data --threads 1"
#define ATTACKS "--eps 1 --attack pgd:steps=5 --attack square:queries=5"
#define RUN "--images 4:6 " ATTACKS /* one of them is right, and broken */

/* What the paths below read, made in this order. */
static const char *const made[] = {
    "new --set dim=8 depth=1 heads=2 patch=16 image=32 classes=10 --seed 3 -o w.safetensors",
    "new --set dim=8 depth=1 heads=2 patch=16 image=32 classes=2 -o two.safetensors",
    "convert w.safetensors w.onnx",
    "eval " MODEL " " RUN " --out run --save-adv --save-npz",
    "eval " MODEL " --images 17:18 " ATTACKS " --out more",
    "eval " MODEL " --images 4:5 " ATTACKS " --out half",
    "export run --format png --out pictures",
    "patch " MODEL " --images 0:2 --threat patch:size=8 --steps 0 --out picture.png",
    "export run --format npy --out arrays",
    "export run --proof proof.npz",
    "train t.yaml --data data --threads 1 --max-steps 1 --out trained",
};

/* o is what a path writes. from: what o is a copy of before; again: what goes on from what a failure left, where that
 * is not the line itself. */
static const struct path {
    const char *line, *from, *again;
    bool anew;   /* what a failure left is refused, in words; the line itself goes on in an empty place */
    bool varies; /* its words hold more than times that vary */
} paths[] = {
    {.line = "info w.safetensors"},
    {.line = "info w.safetensors --explain --json"},
    {.line = "info wide.pth --heads 2"},
    {.line = "info lightning.pth"},
    {.line = "gradcheck w.safetensors --form qkv_rows=heads --form class_last=1"},
    {.line = "convert w.safetensors o/x.safetensors --force", .from = "empty"},
    {.line = "convert w.safetensors o/x.onnx --force", .from = "empty"},
    {.line = "convert wide.pth o/x.safetensors --heads 2 --mean 0.5 --std 0.5 --form pool=token --force",
     .from = "empty"},
    {.line = "convert swin.safetensors o/x.safetensors --mean 0.5 --std 0.5 --force", .from = "empty"},
    {.line = "doctor w.safetensors --against w.onnx"},
    {.line = "map odd.safetensors"},
    {.line = "new --set dim=8 depth=1 heads=2 patch=16 image=32 classes=10 -o o"},
    {.line = "list attacks"},
    {.line = "completion bash"},
    {.line = "completion zsh"},
    {.line = "completion fish"},
    {.line = "list models"},
    {.line = "list formats"},
    {.line = "list wraps"},
    {.line = "list labs"},
    {.line = "list analyses"},
    {.line = "probe vit.safetensors --heads 2 --mean 0.5 --std 0.5 --input golden.safetensors --out o --param-grads"},
    {.line = "probe vit.safetensors --heads 2 --mean 0.5 --std 0.5 --input golden.safetensors --out o --precision f64"},
    {.line = "gradcheck w.safetensors --images 1 --directions 1"},
    {.line = "spectrum w.safetensors --all --csv o --threads 1"},
    {.line = "eval " MODEL " --images 0:2"},
    {.line = "eval " MODEL " " RUN " --out o --save-adv",
     .again = "eval " MODEL " " RUN " --out o --save-adv --resume"},
    {.line = "eval " MODEL " " RUN " --out o --resume", .from = "half"},
    {.line = "eval " MODEL " " RUN " --json"},
    {.line = "eval " MODEL " " RUN " --search bf16-emulated"},
    {.line = "eval " MODEL " " RUN " --dry-run", .varies = true},
    {.line = "eval two.safetensors --data images --images 0:1 --threads 1"},
    {.line = "eval two.safetensors --data images --class-order order --images spread:2 --threads 1"},
    {.line = "eval two.safetensors --data images --images paths --threads 1"},
    {.line = "eval two.safetensors --data tiny --threads 1"},
    {.line = "eval two.safetensors --data photos --preprocess squash:32 --images 0:1 --threads 1"},
    {.line = "eval w.safetensors --data run/adv/pgd.npz --threads 1"},
    {.line = "eval w.safetensors --data test_batch --threads 1"},
    {.line = "eval w.safetensors --data arrays/x_adv.npy,arrays/labels.npy --threads 1"},
    {.line = "eval " MODEL " --images 0:2 --eps 8/255 --attack fgsm --seeds 0,1 --out o", .anew = true},
    {.line = "eval " MODEL
             " --images 0:1 --eps 8/255 --attack transfer --surrogate w.safetensors --wrap noise --eight-bit"},
    {.line = "eval " MODEL " --images 0:2 --eps 8/255 --attack fgsm --targets aim"},
    {.line = "eval " MODEL " --images 0:1 --norm l2 --eps 0.1 --attack fgsm --wrap smooth:n0=11,n=10 --certify smooth"},
    {.line =
         "eval " MODEL " --images 0:1 --threat patch:size=1 --attack pgd:steps=1 --wrap patchcleanser:patch=1,masks=2 "
         "--certify masks"},
    {.line = "eval " MODEL " --images 0:1 --threat patch:size=8,count=1 --attack pgd:steps=1"},
    {.line = "eval " MODEL " --images 0:1 --threat patch:size=8 --attack universal --patch picture.png"},
    {.line = "patch " MODEL " --images 0:2 --held-out 2:4 --threat patch:size=8 --steps 1 --draws 2 --out o/x.png",
     .from = "empty"},
    {.line = "eval " MODEL " --images 0:1 --threat box --box box --attack pgd:steps=1"},
    {.line = "eval " MODEL " --images 0:1 --threat rotation:angles=3,shifts=1 --attack grid"},
    {.line = "eval " MODEL " --images 0:1 --eps 8/255 --attack fgsm+pgd:steps=1 --individual"},
    {.line = "verify run --threads 1"},
    {.line = "verify --adv run/adv/pgd.npz --weights " MODEL " --eps 1 --json o"},
    {.line = "verify --adv run/adv/pgd.npz --weights " MODEL " --eps 1 --csv o"},
    {.line = "verify --adv pictures --weights " MODEL " --eps 1"},
    {.line = "compare run run"},
    {.line = "compare run run --json"},
    {.line = "compare --transfer run run --threads 1 --json"},
    {.line = "merge run more --out o", .anew = true},
    {.line = "merge --worst a=run b=run --out o"},
    {.line = "eval --oracle unix:oracle --data data --threads 1 " RUN " --out o",
     .again = "eval --oracle unix:oracle --data data --threads 1 " RUN " --out o --resume"},
    {.line = "selftest --oracle unix:oracle --data data --threads 1 --images 4:18 --eps 8/255 --attack fgsm --out o"},
    {.line = "doctor --oracle unix:oracle --data data --threads 1 --images 0:4"},
    {.line = "show run --out o"},
    {.line = "show run run --dossier o"},
    {.line = "verify proof.npz --weights " MODEL},
    {.line = "export run --proof o --threads 1"},
    {.line = "export run --queries o"},
    {.line = "export run --robustbench o", .again = "export run --robustbench o --force"},
    {.line = "export run --format npz --out o"},
    {.line = "export run --format safetensors --out o"},
    {.line = "export run --format png --out o", .again = "export run --format png --out o --force"},
    {.line = "curve " MODEL " --images 0:2 --attacks fmn:steps=2 --confirm 1/255 --confirm-with fgsm --out o",
     .again =
         "curve " MODEL " --images 0:2 --attacks fmn:steps=2 --confirm 1/255 --confirm-with fgsm --out o --resume"},
    {.line = "selftest " MODEL " --images 4:18 --eps 8/255 --attack fgsm --out o"},
    {.line = "doctor " MODEL " --images 0:4"},
    {.line = "doctor vit.safetensors --heads 2 --mean 0.5 --std 0.5 --logits golden.safetensors --threads 1"},
    {.line = "train t.yaml --data data --threads 1 --out o",
     .again = "train t.yaml --data data --threads 1 --out o --resume",
     .varies = true},
    {.line = "train t.yaml --data data --threads 1 --out o --resume", .from = "trained", .varies = true},
    {.line = "train p.yaml --data data --threads 1 --out o",
     .again = "train p.yaml --data data --threads 1 --out o --resume",
     .varies = true},
    {.line = "train b.yaml --data data --threads 1 --out o",
     .again = "train b.yaml --data data --threads 1 --out o --resume",
     .varies = true},
    {.line = "table m.yaml --threads 1 --out o"},
    {.line = "table --check t.json"},
    {.line = "analyze affinity " MODEL " --images 0:1 --eps 8/255 --out o", .anew = true},
    {.line = "analyze attention " MODEL " --images 0:1 --out o", .anew = true},
    {.line = "analyze features " MODEL " --images 0:8 --perplexity 2 --steps 20 --out o", .anew = true},
    {.line = "analyze flatness " MODEL " --images 0:2 --out o", .anew = true},
    {.line = "analyze jacobian " MODEL " --images 0:1 --out o", .anew = true},
    {.line = "analyze lipschitz " MODEL " --images 0:1 --eps 8/255 --out o", .anew = true},
    {.line = "analyze orthogonality w.safetensors --threads 1 --out o", .anew = true},
    {.line = "analyze spectrum w.safetensors --threads 1 --out o", .anew = true},
    {.line = "certify relu.onnx --points relu.safetensors --norm l2 --radius 0.01 --threads 1 --out o"},
    {.line = "certify relu.onnx --points relu.safetensors --method lipschitz --threads 1 --out o"},
    {.line = "falsify linear.onnx sat.vnnlib --restarts 2 --threads 1 --out o"},
    {.line = "falsify linear.onnx unsat.vnnlib --restarts 2 --threads 1"},
    {.line = "falsify --referee said.csv list.csv --restarts 2 --threads 1"},
    {.line = "lab regions --most 10 --draws 1 --threads 1 --out o", .anew = true},
    {.line = "lab sample-complexity --sizes 20 --steps 10 --runs 1 --test 10 --attack-points 1 --attack-steps 1 "
             "--threads 1 --out o",
     .anew = true},
};

static const struct {
    const char *name, *text;
} texts[] = {
    {"aim", "# image, class\n0,1\n1 2\n"},
    {"t.yaml", "epochs: 1\nbatch: 4\nmicro_batch: 2\nobjective: at\nattack: {eps: 2/255, spec: "
               "\"pgd:steps=1\"}\noptimiser: sgd\nlr: 1e-3\nmodel: {dim: "
               "8, depth: 1, heads: 2, hidden: 8, patch: 16}\nprobe: {images: 2}\n"},
    {"p.yaml", "epochs: 1\nbatch: 8\nmicro_batch: 4\nobjective: ce\noptimiser: adamw\nlr: 1e-3\nmodel: {dim: "
               "8, depth: 1, heads: 2, hidden: 8, patch: 16}\nprobe: {images: 2}\nema: 0.9\nmsvp: {lambda: "
               "1e-3}\northo: {variant: VAR-III, lambda: 1e-3}\n"},
    {"b.yaml", "epochs: 1\nbatch: 8\nmicro_batch: 8\nobjective: ibp\nattack: {eps: 2/255}\nmodel: {preset: "
               "shift_cifar_dim144_depth6, dim: 9, hidden: 9, depth: 1, patch: 16}\naugment: {mix_prob: 0}\nprobe: "
               "{images: 0}\n"},
    {"t.json", "{\"cells\": [{\"kind\": \"time\"}], \"orderings\": [{\"seeds\": 0, \"verdict\": \"not there\"}]}"},
    {"order", "b\na\n"},
    {"list.csv", "linear.onnx,unsat.vnnlib,9\nlinear.onnx,sat.vnnlib,9\n"},
    {"said.csv", "k,linear.onnx,unsat.vnnlib,0,unsat,1\nk,linear.onnx,sat.vnnlib,0,sat,1\n"},
    {"linear_sat.counterexample", "((X_0 -0.25)\n (X_1 0.125)\n (X_2 0.25))"},
    {"paths", "test/b/x.png\na/x.png\n"},
    {"m.yaml", "name: tiny\ntable: 4\ndata:\n  CIFAR-10: {path: data, images: \"0:2\", side: 32, classes: 10, train: "
               "8}\nattacks:\n  clean: {}\nrows:\n  File: {checkpoint: w.safetensors}\n"},
};

static const struct {
    const char *name, *from;
} fixtures[] = {{"wide.pth", "tests/fixtures/home/kent_vit_wide.pth"},
                {"odd.safetensors", "tests/fixtures/golden/train_model.safetensors"},
                {"lightning.pth", "tests/fixtures/home/lightning.pth"},
                {"swin.safetensors", "tests/fixtures/names/swin_hf5.safetensors"},
                {"vit.safetensors", "tests/fixtures/golden/vit_cls.weights.safetensors"},
                {"linear.onnx", "tests/fixtures/vnnlib/linear.onnx"},
                {"relu.onnx", "tests/fixtures/onnx/certify_relu.onnx"},
                {"relu.safetensors", "tests/fixtures/onnx/certify_relu.safetensors"},
                {"sat.vnnlib", "tests/fixtures/vnnlib/sat.vnnlib"},
                {"unsat.vnnlib", "tests/fixtures/vnnlib/unsat.vnnlib"},
                {"test_batch", "tests/fuzz/corpus/cifar_py/protocol2"},
                {"photo.jpg", "tests/fixtures/images/420.jpg"},
                {"golden.safetensors", "tests/fixtures/golden/vit_cls.golden.safetensors"}};

/* ---- files ---- */

static int removed(const char *name, const struct stat *st, int kind, struct FTW *f) {
    (void)st, (void)kind, (void)f;
    return remove(name);
}

static void clear(const char *name) { nftw(name, removed, 8, FTW_DEPTH | FTW_PHYS); }

static void put(const char *name, const char *text, size_t n) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_true(fwrite(text, 1, n, f) == n && fclose(f) == 0);
}

static void copy(const char *from, const char *to) {
    char *text;
    size_t n;
    if (vt_file_read(from, VT_FILE_ANY, &text, &n, NULL) != VT_OK) fail_msg("%s cannot be read", from);
    put(to, text, n);
    free(text);
}

static const char *copied_from;

/* A folder of classes a and b, the same picture in each. */
static void classes(const char *root, const char *picture, const char *name) {
    static const char *const folders[] = {"", "/test", "/test/a", "/test/b"};
    char to[VT_PATH_MAX];
    for (size_t i = 0; i < T_COUNT(folders); i++) {
        snprintf(to, sizeof to, "%s%s", root, folders[i]);
        assert_int_equal(mkdir(to, 0777), 0);
        if (i < 2) continue;
        strcat(to, name);
        copy(picture, to);
    }
}

/* A box that holds every image. */
static void box_of_all(void) {
    static float bounds[2][3072];
    for (int i = 0; i < 3072; i++) bounds[1][i] = 1;
    const vt_tensor t[] =
        {{.name = "lo", .dtype = VT_F32, .ndim = 3, .shape = {3, 32, 32}, .numel = 3072, .data = bounds[0]},
         {.name = "hi", .dtype = VT_F32, .ndim = 3, .shape = {3, 32, 32}, .numel = 3072, .data = bounds[1]}};
    assert_int_equal(vt_tensors_write("box", t, 2, NULL, 0, NULL), VT_OK);
}

/* Tiny ImageNet's val/ with two pictures, and a test/ without labels. */
static void annotated(const char *picture) {
    static const char *const folders[] = {"tiny",       "tiny/val",     "tiny/test",       "tiny/val/images",
                                          "tiny/train", "tiny/train/a", "tiny/test/images"};
    static const char lines[] = "1.png\tb\t0\n0.png\ta\t0\n";
    for (size_t i = 0; i < T_COUNT(folders); i++) assert_int_equal(mkdir(folders[i], 0777), 0);
    copy(picture, "tiny/val/images/0.png"), copy(picture, "tiny/val/images/1.png");
    copy(picture, "tiny/test/images/2.png");
    put("tiny/val/val_annotations.txt", lines, sizeof lines - 1);
}

static int copied(const char *name, const struct stat *st, int kind, struct FTW *f) {
    char to[VT_PATH_MAX];
    (void)st, (void)f;
    snprintf(to, sizeof to, "o%s", name + strlen(copied_from));
    if (kind == FTW_F) copy(name, to);
    return kind == FTW_D ? mkdir(to, 0777) : 0;
}

static uint64_t mixed(uint64_t h, const void *data, size_t n) {
    for (const unsigned char *p = data; n--; p++) h = (h ^ *p) * 1099511628211u;
    return h;
}

/* A text without its times: numbers before " s" and "ms". */
static uint64_t words_of(const char *name) {
    char *text;
    size_t n;
    uint64_t h = 1;
    if (vt_file_read(name, VT_FILE_ANY, &text, &n, NULL) != VT_OK) return 0;
    for (char *p = text; *p;) {
        size_t k = strspn(p, "0123456789."), gap = strspn(p + k, " ");
        bool time = k && (!strncmp(p + k + gap, "s", 1) || !strncmp(p + k + gap, "ms", 2)) &&
                    !isalpha((unsigned char)p[k + gap + 1 + (p[k + gap] == 'm')]);
        if (!k) k = 1;
        if (!time) h = mixed(h, p, k);
        p += k;
    }
    free(text);
    return h;
}

static uint64_t sum;
static bool half;
static int summed(const char *name, const struct stat *st, int kind, struct FTW *f) {
    static const char *const of_the_moment[] = {"run.json", "SHA256SUMS", "log.jsonl", "done.json", "log.txt"};
    const char *base = name + f->base;
    char *text;
    size_t n;
    (void)st;
    half = half || !strncmp(base, ".vitrine-", 9);
    uint64_t h = mixed(kind == FTW_F, name, strlen(name));
    for (size_t i = 0; i < T_COUNT(of_the_moment); i++)
        if (!strcmp(base, of_the_moment[i])) {
            sum += h;
            return 0;
        }
    if (kind == FTW_F && vt_file_read(name, VT_FILE_ANY, &text, &n, NULL) == VT_OK) {
        h = mixed(h, text, n);
        free(text);
    }
    sum += h;
    return 0;
}

/* What is in o; times are left out. */
static uint64_t files_of(void) {
    sum = 0, half = false;
    nftw("o", summed, 8, FTW_PHYS);
    return sum;
}

/* ---- commands ---- */

static vt_status command(const void *ctx, vt_err *e) {
    static char text[2000], name[] = "vitrine", *words[100] = {name};
    static vt_cli c;
    int n = 1, count;
    const vt_command *const *all = vt_commands(&count);
    snprintf(text, sizeof text, "%s", (const char *)ctx);
    for (char *p = text; *p && n < 100; n++) {
        words[n] = p;
        p += strcspn(p, " ");
        if (*p) *p++ = 0;
    }
    c = (vt_cli){.argc = n, .argv = words};
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i]->name, words[1])) c.command = all[i];
    VT_TRY(vt_cli_parse(&c, n - 2, words + 2, e));
    FILE *before = stdout;
    VT_TRY(vt_script_begin(&c, e));
    vt_status s = c.command->run(&c, e);
    if (stdout != before) fclose(stdout), stdout = before; /* the command's end, else the process's */
    return s;
}

/* In its process alone: what it says goes into files, by buffers that are there. */
static vt_status aside(const void *ctx, vt_err *e) {
    static char out[BUFSIZ], err[BUFSIZ];
    if (!freopen("said", "w", stdout) || !freopen("moaned", "w", stderr)) return VT_E_IO;
    setvbuf(stdout, out, _IOFBF, sizeof out), setvbuf(stderr, err, _IOFBF, sizeof err);
    return command(ctx, e);
}

static int end_of(const struct path *p, bool listing, const scarce_site *site, uint32_t target, bool tracing) {
    clear("o");
    copied_from = p->from;
    if (p->from) assert_int_equal(nftw(p->from, copied, 8, FTW_PHYS), 0);
    /* Text with a time in it is not always as long: what came before may have asked for less. */
    if (target) target = target > 16 ? target - 16 : 1;
    return scarce_try(aside, p->line, listing, site, target, false, tracing);
}

/* Does a sentence on stderr, or one in a table's place, say that something was left out for want of memory? */
static bool admitted(void) {
    char *text;
    size_t n;
    if (vt_file_read("moaned", VT_FILE_ANY, &text, &n, NULL) != VT_OK) return false;
    bool yes = strstr(text, "no memory") || strstr(text, strerror(ENOMEM));
    free(text);
    if (yes || vt_file_read("said", VT_FILE_ANY, &text, &n, NULL) != VT_OK) return yes;
    yes = strstr(text, "(no memory for this table)");
    free(text);
    return yes;
}

/* What libzip and OpenSSL lose where they are refused memory themselves is not ours to free. */
static bool asked_by_them(const scarce_site *s) {
    Dl_info d;
    return dladdr(s->frames[0], &d) && (strstr(d.dli_fname, "libzip") || strstr(d.dli_fname, "libcrypto"));
}

/* Looks again for what was lost: of libraries that keep what they have it is none. */
static bool loses(const struct path *p, const scarce_site *s) {
    if (!scarce_told_at->lost || asked_by_them(s)) return false;
    end_of(p, false, s, s->first, true);
    return scarce_told_at->lost > 0;
}

static int missed;    /* allocations that came no more: text with a time in it is not always as long */
static uint64_t gone; /* the last of what failures left that was gone on from */

/* What is wrong with how the last try ended; NULL: nothing. */
static const char *wrong(const struct path *p, int end, uint64_t files, uint64_t words, const scarce_site *site) {
    const scarce_told *t = scarce_told_at;
    if (end) return "the process did not end as it should";
    if (loses(p, site)) return "memory is lost";
    uint64_t left = files_of();
    if (half) return "half a file stays";
    if (!t->refused && t->status == VT_OK) {
        missed++;
        return NULL;
    }
    if (t->status == VT_OK && admitted()) return NULL;
    if (t->status == VT_OK)
        return left != files                             ? "other files, and no failure"
               : !p->varies && words_of("said") != words ? "other words, and no failure"
                                                         : NULL;
    bool of_the_system = t->status == VT_E_IO && strstr(t->why.text, strerror(ENOMEM));
    if (t->status != VT_E_MEMORY && !of_the_system) return "another status";
    if (t->why.code != t->status || !t->why.text[0] || strchr(t->why.text, '\n')) return "not one sentence";
    if (left == gone) return NULL;
    gone = left;
    if (p->anew) clear("o");
    if (scarce_try(aside, p->again ? p->again : p->line, false, NULL, 0, false, false) || t->status != VT_OK)
        return "it cannot be gone on from what is left";
    return files_of() != files ? "gone on from what is left, the files are others" : NULL;
}

static void test_path(void **state) {
    const struct path *p = *state;
    const scarce_told *t = scarce_told_at;
    int end = end_of(p, true, NULL, 0, true), bad = 0, tried = 0;
    missed = 0, gone = 0;
    if (end || t->status != VT_OK) fail_msg("end %d, status %d: %s", end, t->status, t->why.text);
    if (t->lost) {
        scarce_show(&t->lost_at);
        fail_msg("without any failure memory is lost %u times", t->lost);
    }
    uint64_t files = files_of(), words = words_of("said");
    uint32_t n = t->n, all = t->allocations;
    for (uint32_t i = 0; i < n; i++) {
        const scarce_site *s = &t->sites[i];
        if (scarce_known(s)) continue;
        tried++;
        const char *what = wrong(p, end_of(p, false, s, s->first, false), files, words, s);
        if (!what) continue;
        bad++;
        print_error("%s: allocation %u refused (status %d, %s), asked for by\n", what, s->first, t->status,
                    t->why.text);
        scarce_show(s);
        if (t->lost) print_error("and lost is\n"), scarce_show(&t->lost_at);
    }
    print_message("%u allocations at %u sites, %d of these refused\n", all, n, tried);
    if (bad) fail_msg("%d of %d sites", bad, tried);
    if (missed > 8 + tried / 10) fail_msg("%d of %d allocations came no more", missed, tried);
}

static pid_t server;

/* This program as `vitrine serve`, for as long as the paths take. */
static void serve(void) {
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        execl("/proc/self/exe", "vitrine", "serve", "w.safetensors", "--listen", "unix:oracle", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 6000 && access("oracle", F_OK); i++) usleep(10000);
}

/* All that the paths read, in an empty folder that is entered. */
static vt_status make_place(const char *dir, vt_err *e) {
    char to[100];
    for (size_t i = 0; i < T_COUNT(fixtures); i++) {
        snprintf(to, sizeof to, "%s/%s", dir, fixtures[i].name);
        copy(fixtures[i].from, to);
    }
    if (chdir(dir)) return vt_fail(e, VT_E_IO, "%s cannot be entered", dir);
    for (size_t i = 0; i < T_COUNT(texts); i++) put(texts[i].name, texts[i].text, strlen(texts[i].text));
    VT_TRY(vt_draw_write("data", 8, 20, 1, e));
    for (size_t i = 0; i < T_COUNT(made); i++)
        if (scarce_try(aside, made[i], false, NULL, 0, false, false) || scarce_told_at->status != VT_OK)
            return vt_fail(e, VT_E_IO, "%s: %s", made[i], scarce_told_at->why.text);
    classes("images", "pictures/00004.png", "/x.png");
    box_of_all();
    annotated("pictures/00004.png");
    classes("photos", "photo.jpg", "/x.jpg");
    mkdir("empty", 0777);
    serve();
    return VT_OK;
}

/* What libraries set up once, and keep: the time zone, OpenSSL's random numbers (which libzip asks for). */
static void set_up_libraries(void) {
    unsigned char byte;
    setenv("TZ", "UTC0", 1);
    mktime(&(struct tm){.tm_year = 100});
    RAND_bytes(&byte, 1);
}

int __wrap_main(int argc, char **argv);
int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv) {
    static char dir[] = "/dev/shm/vt-scarce-XXXXXX"; /* in memory: a thousand files made durable wait for no disk */
    const char *only = getenv("ONLY");               /* paths that hold this text */
    struct CMUnitTest tests[T_COUNT(paths)];
    vt_err e = {0};
    size_t n = 0;
    if (argc > 1) return __real_main(argc, argv); /* a child of vitrine table: this program is the command too */
    setenv("VITRINE_RESTARTED", "1", 1);
    set_up_libraries();
    scarce_begin();
    if (!mkdtemp(dir) && !mkdtemp(strcpy(dir, "/tmp/vt-scarce-XXXXXX"))) return 1;
    for (size_t i = 0; i < T_COUNT(paths); i++)
        if (!only || strstr(paths[i].line, only))
            tests[n++] = (struct CMUnitTest){.name = paths[i].line,
                                             .test_func = test_path,
                                             .initial_state = (void *)(uintptr_t)&paths[i]};
    int failed = make_place(dir, &e) == VT_OK ? _cmocka_run_group_tests("scarce", tests, n, NULL, NULL) : 1;
    if (server > 0) kill(server, SIGTERM), waitpid(server, NULL, 0);
    if (e.code) fprintf(stderr, "%s\n", e.text);
    if (chdir("/") == 0) clear(dir);
    return failed;
}
