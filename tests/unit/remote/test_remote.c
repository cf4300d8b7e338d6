/* SPDX-License-Identifier: MIT */
/* A model behind a socket answers with the bits of the same model here: over shared memory and in plain bytes, in any
 * row and whatever else is asked between. What is said of itself is checked; what is no answer is a sentence. */
#include "scratch.h"
#include "toy.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "parallel/child.h"
#include "base/progress.h"
#include "inference/batcher.h"
#include "remote/remote.h"

enum { ROWS = 4 };

static vt_model *model;
static size_t pixels, classes;

static int open_model(void **state) {
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    model = toy_model(&c, 3);
    pixels = vt_config_input_pixels(&c), classes = (size_t)c.classes;
    return make_tmp(state);
}

static int close_model(void **state) {
    vt_model_close(model);
    return remove_tmp(state);
}

static vt_handshake usual(void) {
    vt_handshake h = {.name = "toy", .precision = "float32", .classes = (int)classes, .channels = 3};
    h.height = h.width = model->config.image, h.batch = ROWS, h.vjp = true, h.logits64 = true;
    return h;
}

/* A process that serves the model at an address, until it is killed. */
static pid_t serve(const char *address, const vt_handshake *h) {
    int fd;
    assert_int_equal(vt_child_listen(&fd, address, NULL), VT_OK);
    pid_t pid = fork();
    if (pid == 0)
        for (;;) {
            vt_engine n;
            int talk = accept(fd, NULL, NULL);
            if (vt_engine_open(&n, model, ROWS, h->logits64, NULL, NULL) != VT_OK) _exit(1);
            vt_serve_run(&(vt_serve){.handshake = h, .engine = &n, .in = talk, .out = talk}, NULL);
            vt_engine_close(&n);
            close(talk);
        }
    close(fd);
    return pid;
}

static void stop(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void fill(float *x, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u + seed * 40503u) >> 8 & 255) / 255;
}

/* Everything that an engine can be asked, of two of them, with rows that nobody asks for. */
static void same_answers(const vt_engine *a, const vt_engine *b) {
    float x[ROWS][3 * 12 * 12], z[2][ROWS][5], dx[2][ROWS][3 * 12 * 12], dz[ROWS][5];
    double z64[2][ROWS][5];
    const vt_engine *of[2] = {a, b};
    for (unsigned i = 0; i < ROWS; i++) fill(x[i], pixels, i), fill(dz[i], classes, 9 + i);
    memset(z, 0, sizeof z), memset(dx, 0, sizeof dx), memset(z64, 0, sizeof z64);
    for (int e = 0; e < 2; e++) {
        const float *in[ROWS] = {x[0], NULL, x[2], x[3]}, *other[ROWS] = {NULL, x[1], NULL, NULL};
        float *out[ROWS] = {z[e][0], NULL, z[e][2], z[e][3]}, *o[ROWS] = {NULL, z[e][1], NULL, NULL};
        double *wide[ROWS] = {NULL, NULL, z64[e][2], z64[e][3]};
        const float *of64[ROWS] = {NULL, NULL, x[2], x[3]};
        vt_vjp v[ROWS] = {{.dx = dx[e][0], .dz = dz[0]}, {0}, {.dx = dx[e][2], .dz = dz[2]}, {0}};
        vt_err why = {0};
        if (vt_engine_forward(of[e], out, in, true, &why) != VT_OK) fail_msg("%s", why.text);
        assert_int_equal(vt_engine_vjp(of[e], v, &why), VT_OK);
        /* logits in double, and logits of one alone, leave what was kept */
        assert_int_equal(vt_engine_forward64(of[e], wide, of64, &why), VT_OK);
        if (of[e]->alone) assert_int_equal(vt_engine_alone(of[e], o, other, &why), VT_OK);
        vt_vjp again[ROWS] = {{0}, {0}, {0}, {.dx = dx[e][3], .dz = dz[3]}};
        assert_int_equal(vt_engine_vjp(of[e], again, &why), VT_OK);
        if (!of[e]->alone) assert_int_equal(vt_engine_forward(of[e], o, other, false, &why), VT_OK);
    }
    assert_memory_equal(z[0], z[1], sizeof z[0]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    assert_memory_equal(z64[0], z64[1], sizeof z64[0]);
    assert_true(z[0][0][0] != 0 && dx[0][3][5] != 0 && z64[0][3][1] != 0);
}

static void same_bits(void **state) {
    (void)state;
    char text[300];
    const vt_handshake h = usual();
    for (int plain = 0; plain < 2; plain++) {
        if (plain)
            snprintf(text, sizeof text, "tcp:%d", 20000 + (int)(getpid() % 20000));
        else
            snprintf(text, sizeof text, "unix:%s", at("s"));
        pid_t pid = serve(text, &h);
        vt_remote *r;
        vt_engine here, there, second;
        vt_err e = {0};
        if (vt_remote_open(&r, text, 10, &e) != VT_OK) fail_msg("%s", e.text);
        assert_memory_equal(vt_remote_handshake(r), &h, sizeof h);
        assert_int_equal(vt_engine_open(&here, model, ROWS, true, NULL, NULL), VT_OK);
        if (vt_remote_engine(&there, r, ROWS, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(there.votes, 1);
        same_answers(&here, &there);
        same_answers(&here, &there);
        vt_engine_close(&there);
        if (vt_remote_engine(&there, r, ROWS, &e) != VT_OK) fail_msg("%s", e.text); /* the same conversation again */
        same_answers(&here, &there);
        assert_int_equal(vt_remote_engine(&second, r, ROWS + 1, &e), VT_E_RANGE);
        assert_non_null(strstr(e.text, "at most 4 images, asked for are 5"));
        vt_engine_close(&there), vt_engine_close(&here);
        assert_true(vt_remote_waited(r) > 0);
        vt_remote_close(r);
        stop(pid);
    }
}

/* What was not kept has no vjp: the other side says so, and from then on the conversation is over. */
static void not_kept(void **state) {
    (void)state;
    char text[300];
    const vt_handshake h = usual();
    for (int at_ = 0; at_ < 2; at_++) {
        snprintf(text, sizeof text, "unix:%s", at("k"));
        pid_t pid = serve(text, &h);
        vt_remote *r;
        vt_engine n;
        vt_err e = {0};
        float x[3 * 12 * 12], dx[3 * 12 * 12], z[5], dz[5] = {1};
        const float *in[ROWS] = {x};
        float *out[ROWS] = {z};
        assert_int_equal(vt_remote_open(&r, text, 10, NULL), VT_OK);
        assert_int_equal(vt_remote_engine(&n, r, ROWS, NULL), VT_OK);
        fill(x, pixels, 1);
        if (at_) assert_int_equal(vt_engine_forward(&n, out, in, true, NULL), VT_OK);
        vt_vjp v[ROWS] = {{0}, {.dx = dx, .dz = dz}}; /* row 1, of which nothing was asked */
        assert_int_equal(vt_engine_vjp(&n, v, &e), VT_E_MODEL);
        assert_non_null(strstr(e.text, "a vjp of what was not kept"));
        assert_int_equal(vt_engine_forward(&n, out, in, false, NULL), VT_E_MODEL);
        vt_engine_close(&n);
        vt_remote_close(r);
        stop(pid);
    }
}

/* Without a double copy: alone once more, and behind three neighbours that are the same for everyone. */
static void asked_again(void **state) {
    (void)state;
    char text[300];
    vt_handshake h = usual();
    h.logits64 = false;
    for (int random = 0; random < 2; random++) {
        snprintf(text, sizeof text, "unix:%s", at("t"));
        h.random = random;
        pid_t pid = serve(text, &h);
        vt_remote *r;
        vt_engine n;
        vt_classifier c;
        float x[3 * 12 * 12], z[5];
        double z64[VT_VOTES_MOST * 5];
        assert_int_equal(vt_remote_open(&r, text, 10, NULL), VT_OK);
        assert_int_equal(vt_remote_engine(&n, r, 1, NULL), VT_OK);
        assert_int_equal(vt_classifier_of(&c, &n, NULL), VT_OK);
        assert_int_equal(vt_classifier_votes(&c), random ? VT_REMOTE_VOTES : 2);
        assert_int_equal(c.random, random);
        fill(x, pixels, 8);
        assert_int_equal(vt_classifier_alone(&c, x, z, NULL), VT_OK);
        assert_int_equal(vt_classifier_logits64(&c, x, z64, NULL), VT_OK);
        for (int i = 0; i < vt_classifier_votes(&c); i++)
            for (size_t k = 0; k < classes; k++) assert_true(z64[(size_t)i * classes + k] == (double)z[k]);
        vt_classifier_close(&c);
        vt_remote_close(r);
        stop(pid);
    }
}

/* ---- what a model says of itself ---- */

static const char whole[] = "{\"protocol\":1,\"name\":\"n\",\"classes\":10,\"channels\":3,\"height\":32,\"width\":32,"
                            "\"batch\":8,\"vjp\":true,\"more\":[1]}";

/* The greeting with one text in place of another. */
static vt_status greet(vt_handshake *h, const char *old, const char *new, vt_err *e) {
    char text[6000];
    const char *at_ = strstr(whole, old);
    assert_non_null(at_);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at_ - whole), whole, new, at_ + strlen(old));
    memset(e, 0, sizeof *e);
    return vt_handshake_read(h, text, (size_t)n, e);
}

static void greetings(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *says;
    } rows[] = {
        {"{\"protocol\":1", "[{\"protocol\":1", "not JSON"},
        {"\"protocol\":1", "\"protocol\":2", "speaks version 2 of the protocol, must be 1"},
        {"\"protocol\":1,", "", "speaks version 0"},
        {"\"name\":\"n\",", "", "name is missing, must be text of one line and 1 to 99 bytes"},
        {"\"n\"", "\"\"", "name is \"\", must be text of one line and 1 to 99 bytes"},
        {"\"n\"", "7", "name is 7, must be text"},
        {"\"n\"", "\"a\\u001b[31m\"", "must be text of one line"},
        {"\"classes\":10", "\"classes\":1", "from 2 to 100000"},
        {"\"classes\":10", "\"classes\":10.0", "a whole number"},
        {"\"classes\":10", "\"classes\":\"10\"", "a whole number"},
        {"\"classes\":10", "\"classes\":9223372036854775807", "from 2 to 100000"},
        {"\"height\":32", "\"height\":0", "from 1 to 4096"},
        {"\"height\":32", "\"height\":-32", "from 1 to 4096"},
        {"\"batch\":8", "\"batch\":1025", "from 1 to 1024"},
        {"\"vjp\":true", "\"vjp\":1", "true or false"},
        {"\"more\":[1]", "\"labels\":true", "labels is true, so vjp must be false"},
        {"\"vjp\":true", "\"vjp\":false,\"logits64\":true,\"labels\":true", "so logits64 must be false"},
        {",\"vjp\":true", "", "vjp is missing, must be true or false"},
        {"\"more\":[1]", "\"sha256\":\"ab\"", "64 hexadecimal digits"},
        {"\"channels\":3,\"height\":32,\"width\":32", "\"channels\":64,\"height\":4096,\"width\":4096",
         "at most 67108864"},
    };
    vt_handshake h;
    vt_err e;
    assert_int_equal(greet(&h, "\"n\"", "\"resnet\"", &e), VT_OK);
    assert_string_equal(h.name, "resnet");
    assert_string_equal(h.precision, "float32");
    assert_true(h.vjp && !h.logits64 && !h.random && !h.independent && h.batch == 8 && vt_handshake_pixels(&h) == 3072);
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        assert_int_equal(greet(&h, rows[i].old, rows[i].new, &e), VT_E_FORMAT);
        if (!strstr(e.text, rows[i].says)) fail_msg("%s: '%s' does not say '%s'", rows[i].new, e.text, rows[i].says);
    }
    assert_int_equal(greet(&h, "\"more\":[1]", "\"precision\":\"\",\"note\":\"\"", &e), VT_OK);
    assert_string_equal(h.precision, "float32"); /* an empty text is as if it were not there */
    json_t *o = vt_handshake_json(&h);
    assert_non_null(o);
    json_decref(o);
}

/* An answer of labels is one whole number a row, which becomes logits; a greeting without the key is as it was. */
static void labels_alone(void **state) {
    (void)state;
    vt_handshake h;
    vt_err e;
    assert_int_equal(greet(&h, "\"vjp\":true", "\"vjp\":false", &e), VT_OK);
    json_t *o = vt_handshake_json(&h);
    assert_null(json_object_get(o, "labels"));
    json_decref(o);
    assert_int_equal(vt_wire_row_bytes(&h, VT_WIRE_LOGITS, true), 40);
    assert_int_equal(greet(&h, "\"vjp\":true", "\"vjp\":false,\"labels\":true", &e), VT_OK);
    o = vt_handshake_json(&h);
    assert_true(json_is_true(json_object_get(o, "labels")));
    json_decref(o);
    assert_int_equal(vt_wire_row_bytes(&h, VT_WIRE_LOGITS, true), 4);
    assert_int_equal(vt_wire_row_bytes(&h, VT_WIRE_LOGITS, false), 4 * 3072);
    for (uint32_t label = 0; label < 12; label++) {
        float z[10] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
        memcpy(z, &label, sizeof label);
        assert_int_equal(vt_wire_expand_label(&h, VT_WIRE_LOGITS, z), label < 10);
        for (uint32_t k = 0; k < 10; k++) assert_true(z[k] == (k == label ? 1.f : 0.f));
    }
    h.labels = false;
    float z[10] = {0.5f, 2};
    assert_true(vt_wire_expand_label(&h, VT_WIRE_LOGITS, z) && z[0] == 0.5f && z[1] == 2);
}

static void questions(void **state) {
    (void)state;
    vt_handshake h = usual();
    size_t image = pixels * sizeof(float);
    const vt_wire_head good = {.magic = VT_WIRE_MAGIC, .op = VT_WIRE_LOGITS, .rows = 3, .bytes = 3 + 2 * image};
    assert_null(vt_wire_refuses(&h, &good, false));
    assert_int_equal(vt_wire_question_bytes(&h, &good, 2, false), good.bytes);
    assert_int_equal(vt_wire_question_bytes(&h, &good, 2, true), 3);
    assert_int_equal(vt_wire_answer_bytes(&h, &good, 2, false), 2 * classes * 4);
    assert_int_equal(vt_wire_answer_bytes(&h, &good, 2, true), 0);
    for (int i = 0; i < 9; i++) {
        vt_wire_head q = good;
        vt_handshake g = h;
        if (i == 0) q.magic++;
        if (i == 1) q.zero = 1;
        if (i == 2) q.op = VT_WIRE_ERROR;
        if (i == 3) q.op = VT_WIRE_VJP, g.vjp = false;
        if (i == 4) q.op = VT_WIRE_LOGITS64, g.logits64 = false;
        if (i == 5) q.rows = 0;
        if (i == 6) q.rows = ROWS + 1;
        if (i == 7) q.flags = 2;
        if (i == 8) q.bytes = 3 + 3 * image + 1;
        if (!vt_wire_refuses(&g, &q, false)) fail_msg("question %d is not refused", i);
    }
    /* parts of shared memory follow each other, at multiples of 64 bytes */
    vt_wire_parts p = vt_wire_layout(&h, 3);
    const size_t ends[] = {p.x + 3 * image, p.dx + 3 * image, p.z + 12 * classes, p.dz + 12 * classes,
                           p.z64 + 24 * classes};
    const size_t begins[] = {p.dx, p.z, p.dz, p.z64, p.bytes};
    for (int i = 0; i < 5; i++) assert_true(begins[i] >= ends[i] && begins[i] < ends[i] + 64 && begins[i] % 64 == 0);
}

/* ---- what is no answer ---- */

/* Writes bytes in place of an answer to the first question that it gets, then waits. */
static void against(const char *script, const char *says, double timeout) {
    char command[600];
    vt_remote *r;
    vt_err e = {0};
    snprintf(command, sizeof command, "dd bs=1 count=32 of=/dev/null 2>/dev/null; %s", script);
    double began = vt_now();
    assert_int_equal(vt_remote_open(&r, command, timeout, &e), VT_E_MODEL);
    assert_null(r);
    if (!strstr(e.text, says)) fail_msg("'%s' does not say '%s'", e.text, says);
    assert_true(vt_now() - began < 60); /* the scripts wait for 100 s */
}

static void no_answers(void **state) {
    (void)state;
    against("exit 4", "ended when it was greeted with exit status 4", 50);
    against("kill -SEGV $$", "killed by signal 11", 50);
    against("echo Loading weights; sleep 100", "wrote 'Loading weights...' when it was greeted", 50);
    against("printf '\\001\\002\\003\\004\\005'; sleep 100", "no answer of the protocol", 50);
    against("sleep 100", "did not answer when it was greeted within 0.3 s (--oracle-timeout)", 0.3);
    against("printf VTR1; sleep 100", "did not answer", 0.3);
    against("head -c 28 /dev/zero | sed 's/^/VTR1/'; sleep 100", "answered another question", 50);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(asked_again),
                                       cmocka_unit_test(not_kept),  cmocka_unit_test(greetings),
                                       cmocka_unit_test(questions), cmocka_unit_test(labels_alone),
                                       cmocka_unit_test(no_answers)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
