/* SPDX-License-Identifier: MIT */
#include "eval/ledger_line.h"

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

/* longest: as hashes have them since the first of them */
static void format_number(char buf[VT_NUMBER_ROOM], double v, bool longest) {
    if (!isfinite(v))
        snprintf(buf, VT_NUMBER_ROOM, "null");
    else if (longest)
        snprintf(buf, VT_NUMBER_ROOM, "%.17g", v);
    else
        vt_json_number(buf, v);
}

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

/* Of what the line says, whatever its numbers look like. */
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

static bool get_int(const json_t *o, const char *key, long long min, long long max, long long *out) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) return false;
    *out = (long long)json_integer_value(v);
    return *out >= min && *out <= max;
}

static double get_real(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool vt_line_parse(vt_record *r, const json_t *o) {
    long long image, entry, stage, label, pred, pred64, grads, fwds, vanished = 0, l0 = 0, adv = -1, target = -1;
    const char *status = json_string_value(json_object_get(o, "status")),
               *sha = json_string_value(json_object_get(o, "sha"));
    if (!get_int(o, "image", 0, INT32_MAX, &image) || !get_int(o, "entry", 0, 1000, &entry) ||
        !get_int(o, "stage", 0, 1000, &stage) || !get_int(o, "label", 0, 1000000, &label) ||
        !get_int(o, "pred", 0, 1000000, &pred) || !get_int(o, "pred64", -1, 1000000, &pred64) ||
        !get_int(o, "gradients", 0, INT64_MAX, &grads) || !get_int(o, "forwards", 0, INT64_MAX, &fwds) || !status ||
        !sha || strlen(sha) != 16)
        return false;
    if (json_object_get(o, "vanished") && !get_int(o, "vanished", 1, INT64_MAX, &vanished)) return false;
    if (json_object_get(o, "l0") && !get_int(o, "l0", 1, INT32_MAX, &l0)) return false;
    if (json_object_get(o, "target") && !get_int(o, "target", 0, 1000000, &target)) return false;
    if (json_object_get(o, "adv") && !get_int(o, "adv", 0, INT64_MAX, &adv)) return false;
    *r = (vt_record){.image = (int32_t)image,
                     .entry = (int32_t)entry,
                     .stage = (int32_t)stage,
                     .label = (int32_t)label,
                     .target = (int32_t)target,
                     .pred = (int32_t)pred,
                     .pred64 = (int32_t)pred64,
                     .status = VT_RECORD_STATUS_COUNT,
                     .borderline = json_is_true(json_object_get(o, "borderline")),
                     .margin = get_real(o, "margin"),
                     .margin64 = get_real(o, "margin64"),
                     .linf = get_real(o, "linf"),
                     .l2 = get_real(o, "l2"),
                     .l1 = get_real(o, "l1"),
                     .l0 = (double)l0,
                     .gradients = grads,
                     .forwards = fwds,
                     .vanished = vanished,
                     .adv = adv,
                     .sha = strtoull(sha, NULL, 16)};
    for (uint8_t s = 0; s < VT_RECORD_STATUS_COUNT; s++)
        if (!strcmp(status, status_names[s])) r->status = s;
    bool of_clean = r->status == VT_RECORD_CORRECT || r->status == VT_RECORD_WRONG; /* and of no attack's line */
    return r->status < VT_RECORD_STATUS_COUNT && (r->status == VT_RECORD_NOT_FINITE || of_clean == !r->entry);
}

bool vt_line_is_as_written(const vt_ledger *l, const json_t *o, const vt_record *r) {
    const char *check = json_string_value(json_object_get(o, "check"));
    char want[17];
    snprintf(want, sizeof want, "%016llx", (unsigned long long)line_checksum(l, r));
    return check && !strcmp(check, want);
}
