/* SPDX-License-Identifier: MIT */
/* Which keys of a configuration are understood, and which names of architectures are not computed. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "checkpoint/hub.h"
#include "models/model.h"

/* `key`: read elsewhere, held by tensors too, or without effect on logits; `key=value`: at that value alone, with any
 * other it is another computation. model_args of timm's VisionTransformer, SwinTransformer, Xcit, ConVit (1.0). */
static const char of_timm[] =
    "img_size patch_size in_chans=3 num_classes num_features global_pool embed_dim depth depths num_heads mlp_ratio "
    "qkv_bias qk_norm qk_scale proj_bias init_values class_token no_embed_class reg_tokens pre_norm final_norm fc_norm "
    "pool_include_prefix act_layer dynamic_img_size strict_img_size drop_rate pos_drop_rate patch_drop_rate "
    "proj_drop_rate attn_drop_rate drop_path_rate weight_init fix_init distilled window_size eta tokens_norm "
    "cls_attn_layers local_up_to_layer locality_strength mean std output_fmt pos_embed=learn scale_attn_norm=0 "
    "scale_mlp_norm=0 scale_attn_inner_norm=0 scale_norm=0 dynamic_img_pad=0 ape=0 patch_norm=1 use_pos_embed=1 "
    "use_abs_pos_emb=1 use_rot_pos_emb=0 use_rel_pos_bias=0 use_shared_rel_pos_bias=0 swiglu_mlp=0 always_partition=0 "
    "attn_type= rope_type= window_ratio= norm_layer=layernorm norm_layer=LayerNorm block_fn=Block mlp_layer=Mlp "
    "attn_layer=Attention embed_layer=PatchEmbed embed_norm_layer=";

/* The same of a config.json of transformers, whose classes ViT, DeiT, Swin and Dinov2 these are of (4 and 5). */
static const char of_transformers[] =
    "model_type architectures hidden_act layer_norm_eps hidden_size num_hidden_layers num_attention_heads "
    "intermediate_size mlp_ratio image_size patch_size num_channels=3 qkv_bias depths num_heads embed_dim window_size "
    "use_absolute_embeddings=0 use_swiglu_ffn=0 layerscale_value num_register_tokens path_norm encoder_stride "
    "use_mask_token apply_layernorm reshape_hidden_states out_features out_indices stage_names interpolate_antialias "
    "interpolate_offset attention_probs_dropout_prob hidden_dropout_prob drop_path_rate pooler_act pooler_output_size "
    "id2label label2id num_labels num_classes problem_type finetuning_task initializer_range mask_ratio norm_pix_loss "
    "decoder_num_attention_heads decoder_hidden_size decoder_num_hidden_layers decoder_intermediate_size mean std "
    "heads qk_scale torch_dtype dtype transformers_version _name_or_path _commit_hash _attn_implementation "
    "_attn_implementation_autoset attn_implementation _num_labels gradient_checkpointing return_dict torchscript "
    "output_attentions output_hidden_states use_cache use_bfloat16 pruned_heads is_encoder_decoder=0 is_decoder=0 "
    "rope_theta= rope_scaling= rope_parameters= num_key_value_heads= position_embedding_type=absolute num_layers "
    "chunk_size_feed_forward architecture num_features global_pool pretrained_cfg model_args label_names "
    "label_descriptions do_pooling license language tags library_name";

typedef enum understanding { UNKNOWN, UNDERSTOOD, ANOTHER } understanding;

/* Returns whether the words list the key with this value (NULL: any), with another value alone, or not. */
static understanding classify_key(const char *words, const char *key, const char *value) {
    const size_t n = strlen(key);
    understanding u = UNKNOWN;
    for (const char *p = words; *p && u != UNDERSTOOD; p += strcspn(p, " "), p += strspn(p, " ")) {
        const size_t word = strcspn(p, " ");
        if (word < n || strncmp(p, key, n)) continue;
        if (word == n) return UNDERSTOOD;
        if (p[n] != '=') continue;
        bool same = value && word == n + 1 + strlen(value) && !strncmp(p + n + 1, value, word - n - 1);
        u = same ? UNDERSTOOD : ANOTHER;
    }
    return u;
}

/* Appends "key, key" (of ANOTHER "key=value, ...") of an object's keys that are `wanted`. */
static void append_keys(const json_t *of, const char *words, understanding wanted, char *buf, size_t size) {
    json_t *o = (json_t *)(uintptr_t)of; /* an iterator is made of one that may be changed */
    for (void *at = json_object_iter(o); at; at = json_object_iter_next(o, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *v = json_object_iter_value(at);
        char number[64], plain[60];
        const char *value = vt_hub_word(v, number, sizeof number);
        if (json_is_null(v) || classify_key(words, key, value) != wanted) continue;
        snprintf(number, sizeof number, "%.30s%s%.20s", key, wanted == ANOTHER ? "=" : "",
                 wanted != ANOTHER ? ""
                 : value           ? value
                                   : "...");
        vt_text_item(buf, size, ", ", "%s", vt_text_line(plain, sizeof plain, number));
    }
}

/* Writes the keys of timm's and transformers' configurations of that kind, "a, b". */
static void collect_config_keys(const vt_hub *h, understanding wanted, char *buf, size_t size) {
    *buf = 0;
    append_keys(json_object_get(h->config, "model_args"), of_timm, wanted, buf, size);
    append_keys(json_object_get(h->args, "model_kwargs"), of_timm, wanted, buf, size);
    if (json_is_string(json_object_get(h->config, "model_type")))
        append_keys(h->config, of_transformers, wanted, buf, size);
}

bool vt_hub_classifies(const vt_hub *h) {
    const char *class = json_string_value(json_array_get(json_object_get(h->config, "architectures"), 0));
    return class && strstr(class, "ForImageClassification");
}

void vt_hub_unread(const vt_hub *h, char *buf, size_t size) {
    collect_config_keys(h, UNKNOWN, buf, size);
    if (json_array_size(json_object_get(h->config, "architectures")) && !vt_hub_classifies(h))
        vt_text_item(buf, size, ", ", "architectures");
}

/* The part of an architecture's name that is not computed, between underscores and but for digits after it; NULL:
 * none. */
static const char *find_unsupported_part(const vt_hub *h, const char *name) {
    static const char *const words[] = {"rope", "eva",      "swiglu",  "parallel",    "map",
                                        "post", "postnorm", "respost", "respostnorm", "siglip"};
    const char *from, *pool = json_string_value(vt_hub_get(h, "global_pool", &from));
    const bool mean = strstr(name, "_gap") || (pool && strcmp(pool, "map"));
    for (const char *p = name; *p; p += strcspn(p, "_"), p += *p == '_')
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const size_t n = strlen(words[i]), digits = strspn(p + n * !strncmp(p, words[i], n), "0123456789");
            if (strncmp(p, words[i], n) || (p[n + digits] && p[n + digits] != '_')) continue;
            if (strcmp(words[i], "siglip") || !mean) return words[i];
        }
    return NULL;
}

vt_status vt_hub_computed(const vt_hub *h, const char *weights, vt_err *e) {
    char name[80], other[120];
    const char *from, *word = NULL;
    collect_config_keys(h, ANOTHER, other, sizeof other);
    if (*other)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: its configuration says %s, which vitrine does not compute (%s evaluates any model in "
                       "PyTorch)",
                       weights, other, vt_argument("oracle"));
    if (vt_hub_architecture(h, name, sizeof name, &from) && !vt_preset_find(name))
        word = find_unsupported_part(h, name);
    if (!word) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: its architecture is %s (%s): '%s' names what vitrine does not compute (%s evaluates any model "
                   "in PyTorch)",
                   weights, name, from, word, vt_argument("oracle"));
}

const char *vt_hub_act(const char *name) {
    static const char *const acts[][2] = {{"quickgelu",
                                           "quick_gelu"}, /* OpenAI's, as in timm's vit_*_clip_quickgelu_* */
                                          {"so400m_patch16_siglip", "gelu_tanh"},
                                          {"patch32_siglip", "gelu_tanh"},
                                          {"large_patch16_siglip_gap_512", "gelu_tanh"},
                                          {"large_patch16_siglip_512", "gelu_tanh"},
                                          {"giantopt", "gelu_tanh"},
                                          {"siglip", "gelu"}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (strstr(name, acts[i][0])) return acts[i][1];
    return NULL;
}
