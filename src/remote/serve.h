/* SPDX-License-Identifier: MIT */
/* The other side of remote/remote: answers the questions of a conversation out of an engine of this process. */
#pragma once

#include <signal.h>
#include "inference/engine.h"
#include "remote/wire.h"

typedef struct vt_serve {
    const vt_handshake *handshake; /* batch: at most the engine's capacity */
    const vt_engine *engine;
    int in, out; /* descriptors: one socket, or two pipes */
    const volatile sig_atomic_t *interrupt;
} vt_serve;

/* Until the other side closes: VT_OK. What is no question is answered by a sentence, which is *e's too: VT_E_FORMAT.
 * VT_INTERRUPTED: by the flag. */
vt_status vt_serve_run(const vt_serve *s, vt_err *e);
