/* SPDX-License-Identifier: MIT */
/* One line of a ledger (eval/ledger.h): a record as text, and back. */
#include "eval/ledger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"

static const char *const status_names[] = {
#define VT_RECORD_NAME(id, text) text,
    VT_RECORD_STATUS_LIST(VT_RECORD_NAME)
#undef VT_RECORD_NAME
};

const char *vt_record_status_name(vt_record_status s) { return s < VT_RECORD_STATUS_COUNT ? status_names[s] : "?"; }

/* Writes v as JSON, null unless finite; longest: 17 digits, as hashes have them, else the fewest that read back. */
static void format_number(char buf[VT_NUMBER_ROOM], double v, bool longest) {
    if (!isfinite(v))
        snprintf(buf, VT_NUMBER_ROOM, "null");
    else if (longest)
        snprintf(buf, VT_NUMBER_ROOM, "%.17g", v);
    else
        vt_json_number(buf, v);
}

/* Writes a record as a line without checksum. Returns its length. */
static int line_text(char *buf, size_t size, const vt_record *r, bool longest) {
    const double values[] = {r->margin, r->margin64, r->linf, r->l2, r->l1};
    char t[5][VT_NUMBER_ROOM], adv[32] = "", vanished[40] = "", l0[40] = "", target[32] = "";
    for (int i = 0; i < 5; i++) format_number(t[i], values[i], longest);
    if (r->vanished) snprintf(vanished, sizeof vanished, ",\"vanished\":%lld", (long long)r->vanished);
    if (r->l0 > 0) snprintf(l0, sizeof l0, "\"l0\":%lld,", (long long)r->l0);
    if (r->target >= 0) snprintf(target, sizeof target, "\"target\":%d,", r->target);
    if (r->adv >= 0) snprintf(adv, sizeof adv, ",\"adv\":%lld", (long long)r->adv);
    /* in parts: glibc takes memory for one with so many values, and gives up without it */
    int n = snprintf(buf, size, "{\"image\":%d,\"entry\":%d,\"stage\":%d,\"status\":\"%s\",\"borderline\":%s,",
                     r->image, r->entry, r->stage, vt_record_status_name((vt_record_status)r->status),
                     r->borderline ? "true" : "false");
    n += snprintf(buf + n, size - (size_t)n, "\"label\":%d,%s\"pred\":%d,\"pred64\":%d,", r->label, target, r->pred,
                  r->pred64);
    n += snprintf(buf + n, size - (size_t)n, "\"margin\":%s,\"margin64\":%s,\"linf\":%s,\"l2\":%s,\"l1\":%s,", t[0],
                  t[1], t[2], t[3], t[4]);
    n += snprintf(buf + n, size - (size_t)n, "%s", l0);
    return n + snprintf(buf + n, size - (size_t)n, "\"gradients\":%lld,\"forwards\":%lld%s%s,\"sha\":\"%016llx\"}\n",
                        (long long)r->gradients, (long long)r->forwards, vanished, adv, (unsigned long long)r->sha);
}

/* Returns a line's checksum: of header and record but for its place in adv.bin, whatever digits its numbers have. */
static uint64_t line_checksum(const vt_ledger *l, const vt_record *r) {
    char text[VT_LINE_ROOM];
    vt_record c = *r;
    c.adv = -1;
    c.margin += 0.0, c.margin64 += 0.0, c.linf += 0.0, c.l2 += 0.0, c.l1 += 0.0; /* JSON's -0 is an integer, 0 */
    int n = snprintf(text, sizeof text, "%016llx", (unsigned long long)l->bound);
    n += line_text(text + n, sizeof text - (size_t)n, &c, true);
    return vt_sha_prefix(text, (size_t)n);
}

int vt_line_text(char buf[VT_LINE_ROOM], const vt_ledger *l, const vt_record *r) {
    int n = line_text(buf, VT_LINE_ROOM, r, false) - (int)strlen("}\n");
    return n + snprintf(buf + n, VT_LINE_ROOM - (size_t)n, ",\"check\":\"%016llx\"}\n",
                        (unsigned long long)line_checksum(l, r));
}

enum { CLASSES_MOST = 1000000 };

/* Returns a number of the line; NaN: null, or absent. */
static double get_real(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool vt_line_parse(vt_record *r, const json_t *o) {
    /* in the order of vt_record; a key that is optional keeps its value here if it is absent */
    long long v[] = {0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1};
    static const struct {
        const char *key;
        bool optional;
        long long least, most;
    } whole[] = {{"image", false, 0, INT32_MAX},     {"entry", false, 0, VT_ENTRY_CERTIFY},
                 {"stage", false, 0, 1000},          {"label", false, 0, CLASSES_MOST},
                 {"pred", false, 0, CLASSES_MOST},   {"pred64", false, -1, CLASSES_MOST},
                 {"target", true, 0, CLASSES_MOST},  {"l0", true, 1, INT32_MAX},
                 {"gradients", false, 0, INT64_MAX}, {"forwards", false, 0, INT64_MAX},
                 {"vanished", true, 1, INT64_MAX},   {"adv", true, 0, INT64_MAX}};
    const char *status = json_string_value(json_object_get(o, "status")),
               *sha = json_string_value(json_object_get(o, "sha"));
    if (!status || !sha || strlen(sha) != 16) return false;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const json_t *x = json_object_get(o, whole[i].key);
        if (!x && whole[i].optional) continue;
        v[i] = json_integer_value(x);
        if (!json_is_integer(x) || v[i] < whole[i].least || v[i] > whole[i].most) return false;
    }
    *r = (vt_record){(int)v[0], (int)v[1], (int)v[2], (int)v[3], (int)v[4], (int)v[5], .target = (int)v[6]};
    r->l0 = (double)v[7], r->gradients = v[8], r->forwards = v[9], r->vanished = v[10], r->adv = v[11];
    r->margin = get_real(o, "margin"), r->margin64 = get_real(o, "margin64");
    r->linf = get_real(o, "linf"), r->l2 = get_real(o, "l2"), r->l1 = get_real(o, "l1");
    r->borderline = json_is_true(json_object_get(o, "borderline")), r->sha = strtoull(sha, NULL, 16);
    while (r->status < VT_RECORD_STATUS_COUNT && strcmp(status, status_names[r->status]) != 0) r->status++;
    bool of_clean = r->status == VT_RECORD_CORRECT || r->status == VT_RECORD_WRONG; /* and of no attack's line */
    bool of_certificate = r->status == VT_RECORD_CERTIFIED || r->status == VT_RECORD_UNDECIDED;
    if (of_certificate != (r->entry == VT_ENTRY_CERTIFY)) return false;
    return r->status < VT_RECORD_STATUS_COUNT && (r->status == VT_RECORD_NOT_FINITE || of_clean == !r->entry);
}

bool vt_line_is_as_written(const vt_ledger *l, const json_t *o, const vt_record *r) {
    const char *check = json_string_value(json_object_get(o, "check"));
    char want[17];
    snprintf(want, sizeof want, "%016llx", (unsigned long long)line_checksum(l, r));
    return check && !strcmp(check, want);
}
