/* SPDX-License-Identifier: MIT */
/* vitrine: public umbrella header. Load a model, name attacks, evaluate; the library never prints or exits, and every
 * fallible call returns a vt_status with its sentence in a vt_err (core/status.h). */
#ifndef VITRINE_H
#define VITRINE_H

#include "attacks/attack.h"
#include "core/status.h"
#include "core/version.h"
#include "eval/evaluate.h"
#include "eval/prepare.h"
#include "eval/run_folder.h"
#include "io/dataset.h"
#include "models/model.h"
#include "models/wrap/classifier.h"
#include "train/train.h"

#endif
