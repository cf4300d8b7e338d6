/* SPDX-License-Identifier: MIT */
/* Files of core: read whole within a limit, and written so that they appear complete, durable, and where they were
 * asked for. */
#include "t.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/files.h"
#include "base/hash.h"
#include "tools/draw.h"
#include "data/image.h"
#include "tensors/npy.h"

/* ---- who is made durable: takes the C library's place ---- */

static struct {
    ino_t inode;
    bool folder;
} synced[64];
static int n_synced, interrupted; /* so many calls are ended by a signal, as on NFS */

int fsync(int fd) {
    if (interrupted > 0) {
        interrupted--;
        errno = EINTR;
        return -1;
    }
    struct stat s;
    if (fstat(fd, &s) == 0 && n_synced < 64)
        synced[n_synced].inode = s.st_ino, synced[n_synced++].folder = S_ISDIR(s.st_mode);
    return (int)syscall(SYS_fsync, fd);
}

/* The file, then its folder. */
static void was_made_durable(const char *path) {
    struct stat file, folder;
    int a = -1, b = -1;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(stat(tmp, &folder), 0);
    for (int i = 0; i < n_synced; i++) {
        if (!synced[i].folder && synced[i].inode == file.st_ino) a = i;
        if (synced[i].folder && synced[i].inode == folder.st_ino) b = i;
    }
    if (a < 0 || b < a) fail_msg("%s: synced as number %d, its folder as %d, of %d", path, a, b, n_synced);
    n_synced = 0;
}

static float four[4] = {1, 2, 3, 4};
static const vt_tensor tensor = {.name = "t", .dtype = VT_F32, .ndim = 1, .shape = {4}, .numel = 4, .data = four};

static void test_security_npz_every_writer_is_durable(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file f;
    uint8_t rgb[3] = {1, 2, 3};
    assert_int_equal(vt_file_begin(&f, tmp, "report", &e), VT_OK);
    fputs("text", f.stream);
    assert_int_equal(vt_file_commit(&f, &e), VT_OK);
    was_made_durable(at("report"));
    assert_int_equal(vt_tensors_write(at("w.st"), &tensor, 1, NULL, 0, &e), VT_OK);
    was_made_durable(at("w.st"));
    assert_int_equal(vt_npy_write(at("a.npy"), &tensor, &e), VT_OK);
    was_made_durable(at("a.npy"));
    assert_int_equal(vt_png_write(at("a.png"), &(vt_image){.shape = {3, 1, 1}, .rgb = rgb}, &e), VT_OK);
    was_made_durable(at("a.png"));
    assert_int_equal(vt_npz_write(at("a.npz"), &tensor, 1, &e), VT_OK);
    was_made_durable(at("a.npz"));
    assert_int_equal(vt_npz_write(at("a.npz"), &tensor, 1, &e), VT_OK); /* replaced */
    was_made_durable(at("a.npz"));
    assert_int_equal(vt_draw_write(tmp, 1, 1, 0, &e), VT_OK);
    was_made_durable(at("batches.meta.txt"));
}

/* ---- writing ---- */

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void is(const char *path, const char *text) {
    char *now;
    size_t n;
    vt_err e = {0};
    if (vt_file_read(path, 1000, &now, &n, &e) != VT_OK) fail_msg("%s", e.text);
    assert_string_equal(now, text);
    assert_int_equal(n, strlen(text));
    free(now);
}

/* No name that could be prepared, none that two processes or threads share. */
static void test_security_3_temporary_names(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file a, b;
    char next[500];
    struct stat s;
    assert_int_equal(vt_file_begin(&a, tmp, "x", &e), VT_OK);
    assert_true(lstat(a.temp, &s) == 0 && S_ISREG(s.st_mode));
    char *serial = strrchr(a.temp, '-');
    snprintf(next, sizeof next, "%.*s-%u.tmp", (int)(serial - a.temp), a.temp, (unsigned)atoi(serial + 1) + 1);
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", next), 0); /* the very next name, guessed */
    assert_int_equal(vt_file_begin(&b, tmp, "x", &e), VT_OK);
    assert_string_not_equal(a.temp, b.temp);
    assert_string_not_equal(b.temp, next);
    fputs("a", a.stream), fputs("b", b.stream);
    assert_int_equal(vt_file_commit(&b, &e), VT_OK);
    is(at("x"), "b");
    assert_int_equal(vt_file_commit(&a, &e), VT_OK);
    is(at("x"), "a");
    is(at("victim"), "precious");
    assert_true(lstat(next, &s) == 0 && S_ISLNK(s.st_mode));
    unlink(next);
}

static void test_security_3_links_are_refused(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file f;
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at("link")), 0);
    assert_int_equal(symlink("nowhere", at("dangling")), 0);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    static const char *const names[] = {"link", "dangling"};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        t_says(vt_file_begin(&f, tmp, names[i], &e), VT_E_IO, &e, at("%s", names[i]), "is a link");
        t_says(vt_file_begin_path(&f, at("%s", names[i]), &e), VT_E_IO, &e, at("%s", names[i]), "is a link");
        t_says(vt_file_replace(at("%s", names[i]), NULL, 0, &e), VT_E_IO, &e, at("%s", names[i]), "is a link");
        t_says(vt_npz_write(at("%s", names[i]), &tensor, 1, &e), VT_E_IO, &e, at("%s", names[i]), "is a link");
    }
    t_says(vt_file_begin_path(&f, at("pipe"), &e), VT_E_IO, &e, at("pipe"), "is not a regular file");
    is(at("victim"), "precious");
    assert_int_equal(access(at("nowhere"), F_OK), -1);
}

/* A link that appears while the file is written is replaced and not followed. */
static void test_security_3_link_in_the_meantime(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file f;
    put(at("victim"), "precious");
    assert_int_equal(vt_file_begin(&f, tmp, "late", &e), VT_OK);
    assert_int_equal(symlink("victim", at("late")), 0);
    fputs("new", f.stream);
    assert_int_equal(vt_file_commit(&f, &e), VT_OK);
    is(at("late"), "new");
    is(at("victim"), "precious");
}

/* Where a file may not grow further (RLIMIT_FSIZE) the signal, whose default ends the process, is held back, however
 * the file is written: a sentence, and what was there stays. */
static void test_size_limit(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file f;
    struct rlimit old, small;
    char *bytes = calloc(100000, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old, small.rlim_cur = 50000;
    put(at("kept"), "old");
    int fd = open(at("line"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vt_status begun = vt_file_begin(&f, tmp, "kept", &e);
    for (int i = 0; begun == VT_OK && i < 20000; i++) fprintf(f.stream, "%d\n", i);
    vt_err streamed = {0}, whole = {0}, line = {0};
    vt_status s = begun == VT_OK ? vt_file_commit(&f, &streamed) : begun;
    vt_status t = vt_file_replace(at("kept"), &(vt_span){bytes, 100000}, 1, &whole);
    vt_status u = vt_write_at(fd, bytes, 100000, 0, tmp, "line", &line);
    setrlimit(RLIMIT_FSIZE, &old);
    t_says(s, VT_E_IO, &streamed, at("kept"), "File too large");
    t_says(t, VT_E_IO, &whole, at("kept"), "File too large");
    t_says(u, VT_E_IO, &line, at("line"), "File too large");
    is(at("kept"), "old");
    is(at("line"), "");
    assert_int_equal(access(f.temp, F_OK), -1);
    close(fd);
    free(bytes);
}

static void test_security_14_tidy(void **state) {
    (void)state;
    static const char *const gone[] = {".vitrine-1-2.tmp", "adv/.vitrine-1-2.tmp.aBcDeF", "adv/pgd/.vitrine-9-9.tmp"},
                             *const kept[] = {".vitrine", ".mine.tmp", "adv/pgd/deep/.vitrine-1-2.tmp",
                                              "out/.vitrine-1-2.tmp"};
    static const char *const folders[] =
        {"run", "run/adv", "run/adv/pgd", "run/adv/pgd/deep", "run/.vitrine-1-3.tmp", "run/out"};
    for (size_t i = 0; i + 1 < T_COUNT(folders); i++) assert_int_equal(mkdir(at("%s", folders[i]), 0700), 0);
    assert_int_equal(mkdir(at("elsewhere"), 0700), 0);
    assert_int_equal(symlink("../elsewhere", at("run/out")), 0); /* not walked into */
    for (size_t i = 0; i < T_COUNT(gone); i++) put(at("run/%s", gone[i]), "half");
    for (size_t i = 0; i < T_COUNT(kept); i++) put(at("run/%s", kept[i]), "kept");
    vt_file_tidy(at("run"), 3);
    for (size_t i = 0; i < T_COUNT(gone); i++) assert_int_equal(access(at("run/%s", gone[i]), F_OK), -1);
    for (size_t i = 0; i < T_COUNT(kept); i++) is(at("run/%s", kept[i]), "kept");
    vt_file_tidy(at("no such folder"), 3);
}

/* ---- opening and reading ---- */

/* Every door but vt_file_read's: neither waited for nor taken for a file, with somebody at a pipe's other end or not.
 */
static void test_opened_are_regular_files(void **state) {
    (void)state;
    vt_err e = {0};
    const char *const others[] = {at("fifo"), at("folder"), "/dev/zero"};
    char *bytes, hex[65], first[4];
    size_t n;
    int fd;
    FILE *f;
    assert_int_equal(mkfifo(others[0], 0600), 0);
    assert_int_equal(mkdir(others[1], 0700), 0);
    int fed = open(others[0], O_RDWR | O_NONBLOCK);
    assert_int_equal(write(fed, "text", 4), 4);
    for (size_t i = 0; i < 2 * T_COUNT(others); i++) {
        const char *path = others[i / 2];
        if (i == 1) close(fed);
        t_says(vt_file_open(&fd, NULL, path, O_RDONLY, &e), VT_E_IO, &e, path, "is not a regular file");
        assert_int_equal(fd, -1);
        t_says(vt_file_stream(&f, path, &e), VT_E_IO, &e, path, "is not a regular file");
        assert_null(f);
        t_says(vt_file_load(path, 1000, &bytes, &n, &e), VT_E_IO, &e, path, "is not a regular file");
        assert_null(bytes);
        t_says(vt_sha_file(path, hex, &e), VT_E_IO, &e, path, "is not a regular file");
        assert_int_equal(vt_file_start(path, first, 4), 0);
    }
    t_says(vt_file_open(&fd, NULL, others[0], O_RDWR | O_CREAT, &e), VT_E_IO, &e, others[0], "is not a regular file");
    t_says(vt_file_open(&fd, NULL, others[1], O_RDWR | O_CREAT, &e), VT_E_IO, &e, others[1],
           "cannot be written: Is a directory");
}

/* Links are followed to what is read, and never to what is written. */
static void test_opened_links(void **state) {
    (void)state;
    vt_err e = {0};
    char *bytes, first[9] = "";
    size_t n;
    int fd;
    int64_t size = -1;
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at("link")), 0);
    assert_int_equal(symlink("nowhere", at("dangling")), 0);
    assert_int_equal(vt_file_open(&fd, &size, at("link"), O_RDONLY, &e), VT_OK);
    assert_int_equal(size, 8);
    close(fd);
    assert_int_equal(vt_file_load(at("link"), 8, &bytes, &n, &e), VT_OK);
    assert_string_equal(bytes, "precious");
    free(bytes);
    t_says(vt_file_load(at("link"), 7, &bytes, &n, &e), VT_E_FORMAT, &e, at("link"), "is longer than 7 bytes");
    assert_int_equal(vt_file_start(at("link"), first, 3), 3);
    assert_string_equal(first, "pre");
    assert_int_equal(vt_file_start(at("link"), first, 9), 8);
    assert_int_equal(vt_file_start(at("dangling"), first, 9), 0);
    static const int how[] = {O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL, O_WRONLY | O_CREAT | O_APPEND};
    for (size_t i = 0; i < T_COUNT(how); i++) {
        t_says(vt_file_open(&fd, NULL, at("link"), how[i], &e), VT_E_IO, &e, at("link"), "is a link");
        t_says(vt_file_open(&fd, NULL, at("dangling"), how[i], &e), VT_E_IO, &e, at("dangling"), "is a link");
    }
    t_says(vt_file_open(&fd, NULL, at("victim"), how[2], &e), VT_E_IO, &e, at("victim"),
           "cannot be written: File exists");
    is(at("victim"), "precious");
    assert_int_equal(access(at("nowhere"), F_OK), -1);
    assert_int_equal(vt_file_open(&fd, &size, at("new"), how[2], &e), VT_OK);
    assert_int_equal(size, 0);
    close(fd);
}

static void test_read_limit(void **state) {
    (void)state;
    vt_err e = {0};
    char *text;
    size_t n;
    put(at("ten"), "0123456789");
    assert_int_equal(vt_file_read(at("ten"), 10, &text, &n, &e), VT_OK);
    assert_string_equal(text, "0123456789");
    free(text);
    t_says(vt_file_read(at("ten"), 9, &text, &n, &e), VT_E_FORMAT, &e, at("ten"), "is longer than 9 bytes, the limit");
    assert_null(text);
    t_says(vt_file_read("/dev/zero", 100000, &text, &n, &e), VT_E_FORMAT, &e, "/dev/zero", "longer than 100000 bytes");
    put(at("none"), "");
    assert_int_equal(vt_file_read(at("none"), 0, &text, &n, &e), VT_OK);
    assert_int_equal(n, 0);
    free(text);
    assert_int_equal(vt_file_read("/proc/self/status", 1 << 20, &text, &n, &e), VT_OK); /* says that it has 0 bytes */
    assert_true(n > 100 && strlen(text) == n);
    free(text);
}

static void *feed(void *path) {
    FILE *f = fopen(path, "w"); /* waits for the reader */
    for (int i = 0; f && i < 3; i++) {
        for (int k = 0; k < 5000; k++) fputs("0123456789", f);
        fflush(f);
        usleep(20000); /* the reader finds nothing in it, and somebody who writes */
    }
    if (f) fclose(f);
    return NULL;
}

static void test_house_read_pipes_and_folders(void **state) {
    (void)state;
    vt_err e = {0};
    char *text, path[400];
    size_t n;
    pthread_t writer;
    snprintf(path, sizeof path, "%s", at("fifo"));
    assert_int_equal(mkfifo(path, 0600), 0);
    t_says(vt_file_read(path, 1000, &text, &n, &e), VT_E_IO, &e, path, "is a pipe that nobody writes to");
    t_says(vt_file_read(tmp, 1000, &text, &n, &e), VT_E_IO, &e, tmp, "Is a directory");
    t_says(vt_file_read(at("missing"), 1000, &text, &n, &e), VT_E_IO, &e, at("missing"), "No such file");
    assert_int_equal(pthread_create(&writer, NULL, feed, path), 0);
    vt_status s = VT_E_IO;
    for (int i = 0; i < 6000 && s == VT_E_IO; i++) { /* until the writer is there */
        s = vt_file_read(path, 200000, &text, &n, &e);
        if (s == VT_E_IO) usleep(10000);
    }
    if (s != VT_OK) fail_msg("%s", e.text);
    pthread_join(writer, NULL);
    assert_int_equal(n, 150000);
    assert_int_equal(strspn(text, "0123456789"), 150000);
    free(text);
}

static void test_security_18_sync_is_asked_again(void **state) {
    (void)state;
    vt_err e = {0};
    vt_file f;
    assert_int_equal(vt_file_begin(&f, tmp, "kept", &e), VT_OK);
    fputs("text", f.stream);
    interrupted = 3;
    if (vt_file_commit(&f, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(interrupted, 0);
    was_made_durable(at("kept"));
    assert_int_equal(vt_sync(-1), EBADF);
}

static void test_security_4_folders_below(void **state) {
    (void)state;
    vt_err e = {0};
    char dir[300];
    snprintf(dir, sizeof dir, "%s", at("run"));
    assert_int_equal(vt_make_dir_in(dir, "a/b", &e), VT_OK);
    assert_int_equal(access(at("run/a/b"), F_OK), 0);
    assert_int_equal(symlink("run", at("link")), 0); /* the folder itself may be a link */
    assert_int_equal(vt_make_dir_in(at("link"), "a/b/c", &e), VT_OK);
    assert_int_equal(mkdir(at("victim"), 0700), 0);
    assert_int_equal(symlink("../victim", at("run/d")), 0);
    put(at("run/file"), "text");
    t_says(vt_make_dir_in(dir, "d", &e), VT_E_IO, &e, "run/d: is a link or a file", "must be a folder");
    t_says(vt_make_dir_in(dir, "d/e", &e), VT_E_IO, &e, "run/d", "is a link");
    t_says(vt_make_dir_in(dir, "file", &e), VT_E_IO, &e, "run/file", "is a link or a file");
    assert_int_equal(access(at("victim/e"), F_OK), -1);
}

static void test_security_14_text(void **state) {
    (void)state;
    vt_err e = {0};
    char *text;
    FILE *f = fopen(at("list"), "w");
    fwrite("0\n1\n\0\n2\n", 1, 9, f);
    assert_int_equal(fclose(f), 0);
    t_says(vt_file_text(at("list"), 100, &text, &e), VT_E_FORMAT, &e, at("list"), "holds a byte 0 at 4: it is no text");
    assert_null(text);
    put(at("list"), "0\n1\n");
    assert_int_equal(vt_file_text(at("list"), 4, &text, &e), VT_OK);
    assert_string_equal(text, "0\n1\n");
    free(text);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_tmp, remove_tmp)
    const struct CMUnitTest tests[] = {
        T(test_security_npz_every_writer_is_durable),
        T(test_security_3_temporary_names),
        T(test_security_3_links_are_refused),
        T(test_security_3_link_in_the_meantime),
        T(test_size_limit),
        T(test_security_14_tidy),
        T(test_opened_are_regular_files),
        T(test_opened_links),
        T(test_read_limit),
        T(test_house_read_pipes_and_folders),
        T(test_security_18_sync_is_asked_again),
        T(test_security_4_folders_below),
        T(test_security_14_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
