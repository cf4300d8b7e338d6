#include "lab/attgd_lab.h"
vt_status vt_attgd_rates(const vt_attgd_options *o, vt_lab *lab, vt_err *e) {
    (void)o, (void)lab, (void)e;
    return VT_OK;
}
