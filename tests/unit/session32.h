/* SPDX-License-Identifier: MIT */
/* The float twin of a session, as a text that is compiled in double sees it. */
#ifndef SESSION32_H
#define SESSION32_H

#include "models/net/session.h"

typedef struct vt_session_f32 vt_session_f32;
vt_status vt_session_open_f32(vt_session_f32 **out, const vt_model *m, int capacity, vt_grad_mode mode, vt_err *e);
size_t vt_session_bytes_f32(const vt_model *m, int capacity, vt_grad_mode mode);
void vt_session_close_f32(vt_session_f32 *s);
const float *vt_session_forward_f32(vt_session_f32 *s, const float *x, int b, bool keep);
void vt_session_backward_f32(vt_session_f32 *s, const float *dlogits, float *dx, float *grad);

#endif
