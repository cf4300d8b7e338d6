/* JPEG through stb_image, for systems without libjpeg. Its DCT, upsampling and colour conversion round in another way
 * than libjpeg's. Damaged entropy-coded data is not always noticed: what is missing becomes grey. */
#include "io/image_jpeg.h"

#ifdef VT_JPEG_STB

#include <stdlib.h>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_ASSERT(x) ((void)0)
#define STBI_MAX_DIMENSIONS VT_IMAGE_MAX_SIDE
/* of the other formats; judged at the end of the file, so not to be popped. A system header's other warnings are
 * silent. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>

static vt_status stb_decode(uint8_t *rgb, const vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path,
                            vt_err *e) {
    int w, h, components;
    uint8_t *px = stbi_load_from_memory(bytes, (int)n, &w, &h, &components, 3); /* n is at most 2^30 */
    if (!px) return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %s", path, stbi_failure_reason());
    if (w != o->width || h != o->height) {
        stbi_image_free(px);
        return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %d x %d pixels were decoded of %d x %d", path, w, h, o->width,
                       o->height);
    }
    size_t plane = (size_t)w * (size_t)h;
    for (size_t i = 0; i < plane; i++)
        for (size_t c = 0; c < 3; c++) rgb[c * plane + i] = px[3 * i + c];
    stbi_image_free(px);
    return VT_OK;
}

const vt_jpeg_decoder vt_jpeg_decoder_stb = {.name = "stb_image", .version = "2", .decode = stb_decode};

#endif
