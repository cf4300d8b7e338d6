/* vitrine: public umbrella header. The library never prints or exits; see core/status.h for errors. */
#ifndef VITRINE_H
#define VITRINE_H

#define VT_VERSION "0.1.0"

#include "core/status.h"
#include "io/dataset.h"
#include "models/classifier.h"
#include "models/model.h"

#endif
