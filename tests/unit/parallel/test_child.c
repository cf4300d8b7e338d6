/* SPDX-License-Identifier: MIT */
/* Children behind a socket: bytes both ways, how they ended, and that nothing of them is left, whoever is killed. */
#include "scratch.h"
#include "t.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "parallel/child.h"
#include "base/progress.h"

static bool alive(pid_t pid) { return pid > 0 && kill(pid, 0) == 0; }

static pid_t read_pid(const vt_child *c) {
    char text[16] = {0};
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        assert_int_equal(vt_child_read(c->fd, text + i, 1, vt_now() + 60, NULL, NULL, NULL), VT_IO_DONE);
        if (text[i] == '\n') break;
    }
    return (pid_t)atoi(text);
}

static void gone(pid_t pid) {
    for (double until = vt_now() + 60; alive(pid) && vt_now() < until;) usleep(2000);
    assert_false(alive(pid));
}

static void bytes(void **state) {
    (void)state;
    vt_child c;
    vt_err e = {0};
    char out[70000], in[70000];
    size_t got;
    assert_int_equal(vt_child_start(&c, "cat", &e), VT_OK);
    for (size_t i = 0; i < sizeof out; i++) out[i] = (char)(i * 31);
    /* more than the socket holds would block: cat answers meanwhile */
    for (size_t i = 0; i < sizeof out; i += 7000) {
        assert_int_equal(vt_child_write(c.fd, out + i, 7000, vt_now() + 60, NULL, -1), VT_IO_DONE);
        assert_int_equal(vt_child_read(c.fd, in + i, 7000, vt_now() + 60, NULL, NULL, &got), VT_IO_DONE);
        assert_int_equal(got, 7000);
    }
    assert_memory_equal(in, out, sizeof out);
    double began = vt_now();
    assert_int_equal(vt_child_read(c.fd, in, 1, vt_now() + 0.1, NULL, NULL, NULL), VT_IO_LATE);
    volatile sig_atomic_t flag = 1;
    assert_int_equal(vt_child_read(c.fd, in, 1, vt_now() + 60, &flag, NULL, NULL), VT_IO_INTERRUPTED);
    assert_true(vt_now() - began < 50);
    vt_child_end(&c, 5);
    assert_int_equal(c.fd, -1);
}

static void how_it_ended(void **state) {
    (void)state;
    static const struct {
        const char *command;
        int how;
    } rows[] = {{"exit 3", 3}, {"kill -9 $$", 137}, {"no_such_program_at_all 2>/dev/null", 127}, {"true", 0}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_child c;
        char byte;
        assert_int_equal(vt_child_start(&c, rows[i].command, NULL), VT_OK);
        assert_int_equal(vt_child_read(c.fd, &byte, 1, vt_now() + 60, NULL, NULL, NULL), VT_IO_CLOSED);
        vt_child_wait(&c, 60);
        assert_true(c.ended);
        assert_int_equal(c.how, rows[i].how);
        vt_child_end(&c, 0);
    }
}

/* A grandchild in a session of its own, which ignores what it can; for five minutes, should it be left behind. */
#define STUBBORN                                                                                                       \
    "setsid sh -c 'trap \"\" TERM INT HUP; echo $$; i=0; while [ $i -lt 300 ]; do sleep 1; i=$((i+1)); done'"

static void nothing_is_left(void **state) {
    (void)state;
    vt_child c;
    assert_int_equal(vt_child_start(&c, STUBBORN " & " STUBBORN, NULL), VT_OK);
    pid_t a = read_pid(&c), b = read_pid(&c);
    assert_true(alive(a) && alive(b) && a != b);
    double began = vt_now();
    vt_child_end(&c, 0.2);
    gone(a), gone(b);
    assert_true(vt_now() - began < 50);
    /* the command itself ends, and leaves another behind */
    assert_int_equal(vt_child_start(&c, STUBBORN " & sleep 0.1", NULL), VT_OK);
    a = read_pid(&c);
    vt_child_wait(&c, 60);
    assert_true(c.ended);
    gone(a);
    vt_child_end(&c, 0);
}

/* This process is killed as hard as can be: its children end. */
static void after_kill_9(void **state) {
    (void)state;
    int word[2];
    assert_int_equal(pipe(word), 0);
    pid_t parent = fork();
    if (parent == 0) {
        vt_child first, c;
        if (vt_child_start(&first, "cat", NULL) != VT_OK || vt_child_start(&c, STUBBORN, NULL) != VT_OK) _exit(1);
        pid_t pids[3] = {read_pid(&c), first.keeper, c.keeper};
        if (write(word[1], pids, sizeof pids) != sizeof pids) _exit(1);
        for (;;) pause();
    }
    pid_t pids[3];
    assert_int_equal(read(word[0], pids, sizeof pids), sizeof pids);
    for (int i = 0; i < 3; i++) assert_true(alive(pids[i]));
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    for (int i = 0; i < 3; i++) gone(pids[i]);
    close(word[0]), close(word[1]);
}

static void addresses(void **state) {
    (void)state;
    char text[200];
    int fd;
    vt_child c;
    vt_err e = {0};
    assert_true(vt_child_is_address("unix:/x") && vt_child_is_address("tcp:1"));
    assert_false(vt_child_is_address("python3 x.py") || vt_child_is_address("unix"));
    snprintf(text, sizeof text, "unix:%s", at("socket"));
    assert_int_equal(vt_child_connect(&c, text, &e), VT_E_IO);
    assert_non_null(strstr(e.text, "nobody answers there"));
    assert_int_equal(vt_child_listen(&fd, text, NULL), VT_OK);
    assert_int_equal(vt_child_connect(&c, text, NULL), VT_OK);
    vt_child_end(&c, 0);
    int second;
    assert_int_equal(vt_child_listen(&second, text, NULL), VT_E_IO); /* one that answers keeps its place */
    close(fd);
    assert_int_equal(vt_child_listen(&fd, text, NULL), VT_OK); /* one that is dead does not */
    close(fd);
    FILE *f = fopen(at("file"), "w");
    fclose(f);
    snprintf(text, sizeof text, "unix:%s", at("file"));
    assert_int_equal(vt_child_listen(&fd, text, NULL), VT_E_IO);
    assert_int_equal(access(at("file"), F_OK), 0);
    static const char *const odd[] = {"tcp:", "tcp:0", "tcp:65536", "tcp:x", "tcp:1:2", "unix:"};
    for (size_t i = 0; i < T_COUNT(odd); i++) assert_int_equal(vt_child_connect(&c, odd[i], NULL), VT_E_USAGE);
    memset(text, 'a', sizeof text), memcpy(text, "unix:", 5), text[150] = 0;
    assert_int_equal(vt_child_connect(&c, text, NULL), VT_E_USAGE);
}

static void shared_memory(void **state) {
    (void)state;
    int fd;
    void *a, *b;
    assert_int_equal(vt_shared_make(&fd, &a, 8192, NULL), VT_OK);
    assert_int_not_equal(ftruncate(fd, 0), 0); /* sealed: nobody takes it away under the other */
    assert_null(vt_shared_map(fd, 4096));
    assert_null(vt_shared_map(0, 4096)); /* no memory that was sealed */
    b = vt_shared_map(fd, 8192);
    assert_non_null(b);
    ((char *)a)[8191] = 7;
    assert_int_equal(((char *)b)[8191], 7);
    vt_shared_close(a, 8192), vt_shared_close(b, 8192), vt_shared_close(NULL, 1);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes),
                                       cmocka_unit_test(how_it_ended),
                                       cmocka_unit_test(nothing_is_left),
                                       cmocka_unit_test(after_kill_9),
                                       cmocka_unit_test_setup_teardown(addresses, make_tmp, remove_tmp),
                                       cmocka_unit_test(shared_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
