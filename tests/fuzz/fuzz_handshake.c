/* SPDX-License-Identifier: MIT */
/* What a model in another process says of itself is any text: it is refused in a sentence, or keeps what
 * remote/wire.h promises, and means the same when it is written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "remote/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void hold(bool promised) {
    if (!promised) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_handshake h, again;
    vt_err e = {0};
    vt_status s = vt_handshake_read(&h, (const char *)bytes, n, &e);
    hold(s == VT_OK || ((s == VT_E_FORMAT || s == VT_E_MEMORY) && e.text[0]));
    if (s != VT_OK) return 0;
    hold(h.classes >= 2 && h.channels >= 1 && h.height >= 1 && h.width >= 1 && h.batch >= 1 &&
         h.batch <= VT_WIRE_BATCH);
    hold(vt_handshake_pixels(&h) <= (size_t)1 << 26 && (!h.sha256[0] || strlen(h.sha256) == 64));
    for (int rows = 1; rows <= h.batch;
         rows += 341) { /* sizes that fit in memory's addresses, each part behind the last */
        vt_wire_parts p = vt_wire_layout(&h, rows);
        hold(p.dx <= p.z && p.z <= p.dz && p.dz <= p.z64 && p.z64 < p.bytes);
    }
    json_t *o = vt_handshake_json(&h);
    json_object_set_new(o, "protocol", json_integer(VT_WIRE_PROTOCOL));
    char *text = vt_json_text(o, JSON_COMPACT);
    hold(text && vt_handshake_read(&again, text, strlen(text), &e) == VT_OK && !memcmp(&h, &again, sizeof h));
    free(text);
    json_decref(o);
    return 0;
}
