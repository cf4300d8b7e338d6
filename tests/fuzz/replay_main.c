/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target without libFuzzer: every file given (folders: their files, by name) as it is, then with
 * `-mutate N` N damaged copies of the corpus, made from `-seed S`. A crash names file, seed and cycle, so
 * that
 * `-mutate N -seed S` with the same files meets it again.
 *
 *   replay_png [-mutate N] [-seed S] FILE|FOLDER... */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
/* Present when a sanitizer is linked in: called before it ends the process. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

typedef struct input {
    char *path;
    uint8_t *bytes;
    size_t n;
} input;

static input *corpus;
static size_t count;

/* What is running; read by the crash handlers, which must not call stdio. */
static const char *current_path = "(none)";
static uint64_t current_seed, current_cycle;

static void say(const char *text) {
    if (write(2, text, strlen(text)) < 0) _exit(3);
}

static void say_number(uint64_t v) {
    char buf[24], *p = buf + sizeof buf - 1;
    *p = 0;
    do *--p = (char)('0' + v % 10);
    while (v /= 10);
    say(p);
}

static void report(void) {
    say("replay: failed on ");
    say(current_path);
    say(", seed ");
    say_number(current_seed);
    say(", cycle ");
    say_number(current_cycle);
    say(" (cycle 0: the file as it is)\n");
}

static void on_signal(int s) {
    report();
    signal(s, SIG_DFL);
    raise(s);
}

static void usage(const char *what) {
    fprintf(stderr, "replay: %s; usage: replay [-mutate N] [-seed S] FILE|FOLDER...\n", what);
    exit(2);
}

static uint64_t number(const char *text) {
    char *end = NULL;
    uint64_t v = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end) usage("-mutate and -seed take a whole number");
    return v;
}

static void *need(void *p) {
    if (!p) usage("out of memory");
    return p;
}

static void add(const char *path);

static void add_folder(const char *path) {
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) usage("a folder cannot be listed");
    for (int i = 0; i < n; i++) {
        char *below = NULL;
        if (names[i]->d_name[0] != '.' && asprintf(&below, "%s/%s", path, names[i]->d_name) >= 0) add(below);
        free(below);
        free(names[i]);
    }
    free(names);
}

static void add(const char *path) {
    struct stat s;
    if (stat(path, &s)) usage("a file or folder is missing");
    if (S_ISDIR(s.st_mode)) {
        add_folder(path);
        return;
    }
    FILE *f = fopen(path, "rb");
    if (!f) usage("a file cannot be opened");
    corpus = need(realloc(corpus, (count + 1) * sizeof *corpus));
    input *in = &corpus[count++];
    in->path = need(strdup(path));
    in->bytes = need(malloc(INPUT_MAX));
    in->n = fread(in->bytes, 1, INPUT_MAX, f);
    in->bytes = need(realloc(in->bytes, in->n ? in->n : 1));
    fclose(f);
}

/* splitmix64 */
static uint64_t state;
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static size_t below(size_t n) { return n ? (size_t)(draw() % n) : 0; }

/* One damage to the *n bytes at b, which has room for INPUT_MAX. */
static void damage(uint8_t *b, size_t *n) {
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '}', '[', ',', '9', '-'};
    size_t at = below(*n);
    const input *other = &corpus[below(count)];
    size_t k = 1 + below(16);
    switch (draw() % 6) {
    case 0: /* a bit */
        if (*n) b[at] ^= (uint8_t)(1u << (draw() & 7));
        break;
    case 1: /* a byte */
        if (*n) b[at] = draw() & 1 ? (uint8_t)draw() : telling[below(sizeof telling)];
        break;
    case 2: /* truncation */
        *n = at;
        break;
    case 3: /* insertion */
        if (*n + k > INPUT_MAX) break;
        memmove(b + at + k, b + at, *n - at);
        for (size_t i = 0; i < k; i++) b[at + i] = telling[below(sizeof telling)];
        *n += k;
        break;
    case 4: /* removal */
        if (k > *n - at) k = *n - at;
        memmove(b + at, b + at + k, *n - at - k);
        *n -= k;
        break;
    default: /* splice: the tail of another input */
        k = below(other->n);
        if (at + other->n - k > INPUT_MAX) break;
        memcpy(b + at, other->bytes + k, other->n - k);
        *n = at + other->n - k;
    }
}

/* An exact-size copy, so that a sanitizer sees the first byte read past the end. */
static void run(const uint8_t *bytes, size_t n) {
    uint8_t *copy = need(malloc(n ? n : 1));
    if (n) memcpy(copy, bytes, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void mutate(uint64_t cycles) {
    uint8_t *b = need(malloc(INPUT_MAX));
    for (uint64_t c = 1; c <= cycles; c++) {
        const input *in = &corpus[below(count)];
        size_t n = in->n;
        current_path = in->path;
        current_cycle = c;
        memcpy(b, in->bytes, n);
        for (size_t k = 1 + below(4); k > 0; k--) damage(b, &n);
        run(b, n);
    }
    free(b);
}

static void catch_crashes(void) {
    const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    signal(SIGABRT, on_signal); /* abort() in a target; a sanitizer reports the others itself */
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(report);
        return;
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], on_signal);
}

int main(int argc, char **argv) {
    uint64_t cycles = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-mutate"))
            cycles = number(argv[++i]);
        else if (!strcmp(argv[i], "-seed"))
            current_seed = number(argv[++i]);
        else
            add(argv[i]);
    }
    if (!count) usage("no input files");
    state = current_seed;
    catch_crashes();
    for (size_t i = 0; i < count; i++) {
        current_path = corpus[i].path;
        run(corpus[i].bytes, corpus[i].n);
    }
    mutate(cycles);
    printf("replay: %zu files and %llu mutations, seed %llu\n", count, (unsigned long long)cycles,
           (unsigned long long)current_seed);
    for (size_t i = 0; i < count; i++) {
        free(corpus[i].path);
        free(corpus[i].bytes);
    }
    free(corpus);
    return 0;
}
