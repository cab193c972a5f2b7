// The published layouts, as text: a version, its functions, then a struct per line with its size and the offset of each
// field. Versions between two entries have the layout of the earlier one. See rkllm_abi.h for where the numbers are from.
#include "elf/rkllm_abi_data.h"

namespace npu::elf {

const char* const rkllm_abi_text = R"(
version 1.0.0b
functions createDefaultParam destroy init run
struct RKLLMParam 64 modelPath@0 target_platform@8 num_npu_core@16 max_context_len@20 max_new_tokens@24 top_k@28
  top_p@32 temperature@36 repeat_penalty@40 frequency_penalty@44 presence_penalty@48 mirostat@52 mirostat_tau@56
  mirostat_eta@60
version 1.0.1
functions abort createDefaultParam destroy init run
struct RKLLMParam 72 model_path@0 num_npu_core@8 max_context_len@12 max_new_tokens@16 top_k@20 top_p@24
  temperature@28 repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48
  mirostat_eta@52 logprobs@56 top_logprobs@60 use_gpu@64
struct Token 8 logprob@0 id@4
struct RKLLMResult 24 text@0 tokens@8 num@16
version 1.1.0
functions abort createDefaultParam destroy init is_running load_lora load_prompt_cache release_prompt_cache run
  run_async
struct RKLLMExtendParam 116 base_domain_id@0 reserved@4
struct RKLLMParam 200 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 top_p@20 temperature@24
  repeat_penalty@28 frequency_penalty@32 presence_penalty@36 mirostat@40 mirostat_tau@44 mirostat_eta@48
  skip_special_token@52 is_async@53 img_start@56 img_end@64 img_content@72 extend_param@80
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 24 prompt@0 image_embed@8 n_image_tokens@16
struct RKLLMInput 32 input_type@0 prompt_input@8 embed_input@8 token_input@8 multimodal_input@8
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMInferParam 24 mode@0 lora_params@8 prompt_cache_params@16
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResult 32 text@0 token_id@8 last_hidden_layer@16
version 1.1.4
functions abort createDefaultParam destroy init is_running load_lora load_prompt_cache release_prompt_cache run
  run_async
struct RKLLMExtendParam 116 base_domain_id@0 reserved@4
struct RKLLMParam 200 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 top_p@20 temperature@24
  repeat_penalty@28 frequency_penalty@32 presence_penalty@36 mirostat@40 mirostat_tau@44 mirostat_eta@48
  skip_special_token@52 is_async@53 img_start@56 img_end@64 img_content@72 extend_param@80
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 24 prompt@0 image_embed@8 n_image_tokens@16
struct RKLLMInput 32 input_type@0 prompt_input@8 embed_input@8 token_input@8 multimodal_input@8
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMInferParam 24 mode@0 lora_params@8 prompt_cache_params@16
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResult 32 text@0 token_id@8 last_hidden_layer@16
version 1.2.0
functions abort clear_kv_cache createDefaultParam destroy init is_running load_lora load_prompt_cache
  release_prompt_cache run run_async set_chat_template
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 reserved@12
struct RKLLMParam 208 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 is_async@57 img_start@64 img_end@72 img_content@80 extend_param@88
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 24 prompt@0 image_embed@8 n_image_tokens@16
struct RKLLMInput 32 input_type@0 prompt_input@8 embed_input@8 token_input@8 multimodal_input@8
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMInferParam 32 mode@0 lora_params@8 prompt_cache_params@16 keep_history@24
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMResult 48 text@0 token_id@8 last_hidden_layer@16 logits@32
version 1.2.1b1
functions abort clear_kv_cache createDefaultParam destroy init is_running load_lora load_prompt_cache
  release_prompt_cache run run_async set_chat_template
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 reserved@12
struct RKLLMParam 208 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 is_async@57 img_start@64 img_end@72 img_content@80 extend_param@88
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 48 prompt@0 image_embed@8 n_image_tokens@16 n_image@24 image_width@32 image_height@40
struct RKLLMInput 56 input_type@0 prompt_input@8 embed_input@8 token_input@8 multimodal_input@8
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMInferParam 32 mode@0 lora_params@8 prompt_cache_params@16 keep_history@24
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMResult 48 text@0 token_id@8 last_hidden_layer@16 logits@32
version 1.2.1
functions abort clear_kv_cache createDefaultParam destroy get_kv_cache_size init is_running load_lora
  load_prompt_cache release_prompt_cache run run_async set_chat_template set_cross_attn_params set_function_tools
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 n_batch@12
  use_cross_attn@13 reserved@14
struct RKLLMParam 208 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 is_async@57 img_start@64 img_end@72 img_content@80 extend_param@88
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 48 prompt@0 image_embed@8 n_image_tokens@16 n_image@24 image_width@32 image_height@40
struct RKLLMInput 64 role@0 enable_thinking@8 input_type@12 prompt_input@16 embed_input@16 token_input@16
  multimodal_input@16
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMCrossAttnParam 40 encoder_k_cache@0 encoder_v_cache@8 encoder_mask@16 encoder_pos@24 num_tokens@32
struct RKLLMInferParam 32 mode@0 lora_params@8 prompt_cache_params@16 keep_history@24
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMPerfStat 20 prefill_time_ms@0 prefill_tokens@4 generate_time_ms@8 generate_tokens@12 memory_usage_mb@16
struct RKLLMResult 72 text@0 token_id@8 last_hidden_layer@16 logits@32 perf@48
version 1.2.2
functions abort clear_kv_cache createDefaultParam destroy get_kv_cache_size init is_running load_lora
  load_prompt_cache release_prompt_cache run run_async set_chat_template set_cross_attn_params set_function_tools
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 n_batch@12
  use_cross_attn@13 reserved@14
struct RKLLMParam 208 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 is_async@57 img_start@64 img_end@72 img_content@80 extend_param@88
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModelInput 48 prompt@0 image_embed@8 n_image_tokens@16 n_image@24 image_width@32 image_height@40
struct RKLLMInput 64 role@0 enable_thinking@8 input_type@12 prompt_input@16 embed_input@16 token_input@16
  multimodal_input@16
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMCrossAttnParam 40 encoder_k_cache@0 encoder_v_cache@8 encoder_mask@16 encoder_pos@24 num_tokens@32
struct RKLLMInferParam 32 mode@0 lora_params@8 prompt_cache_params@16 keep_history@24
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMPerfStat 20 prefill_time_ms@0 prefill_tokens@4 generate_time_ms@8 generate_tokens@12 memory_usage_mb@16
struct RKLLMResult 72 text@0 token_id@8 last_hidden_layer@16 logits@32 perf@48
version 1.2.3
functions abort clear_kv_cache createDefaultParam destroy get_kv_cache_size init is_running load_lora
  load_prompt_cache release_prompt_cache run run_async set_chat_template set_cross_attn_params set_function_tools
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 n_batch@12
  use_cross_attn@13 reserved@14
struct RKLLMParam 208 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 is_async@57 img_start@64 img_end@72 img_content@80 extend_param@88
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModalInput 48 prompt@0 image_embed@8 n_image_tokens@16 n_image@24 image_width@32 image_height@40
struct RKLLMInput 64 role@0 enable_thinking@8 input_type@12 prompt_input@16 embed_input@16 token_input@16
  multimodal_input@16
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMCrossAttnParam 40 encoder_k_cache@0 encoder_v_cache@8 encoder_mask@16 encoder_pos@24 num_tokens@32
struct RKLLMInferParam 32 mode@0 lora_params@8 prompt_cache_params@16 keep_history@24
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMPerfStat 20 prefill_time_ms@0 prefill_tokens@4 generate_time_ms@8 generate_tokens@12 memory_usage_mb@16
struct RKLLMResult 72 text@0 token_id@8 last_hidden_layer@16 logits@32 perf@48
version 1.3.0
functions abort clear_kv_cache createDefaultParam destroy get_kv_cache_size init is_running load_lora
  load_prompt_cache release_prompt_cache run run_async set_chat_template set_cross_attn_params set_function_tools
struct RKLLMExtendParam 120 base_domain_id@0 embed_flash@4 enabled_cpus_num@5 enabled_cpus_mask@8 n_batch@12
  use_cross_attn@13 reserved@14
struct RKLLMParam 184 model_path@0 max_context_len@8 max_new_tokens@12 top_k@16 n_keep@20 top_p@24 temperature@28
  repeat_penalty@32 frequency_penalty@36 presence_penalty@40 mirostat@44 mirostat_tau@48 mirostat_eta@52
  skip_special_token@56 ignore_eos_token@57 is_async@58 extend_param@60
struct RKLLMLoraAdapter 24 lora_adapter_path@0 lora_adapter_name@8 scale@16
struct RKLLMEmbedInput 16 embed@0 n_tokens@8
struct RKLLMTokenInput 16 input_ids@0 n_tokens@8
struct RKLLMMultiModalInput 144 prompt@0 image@8 video@72
struct RKLLMInput 160 role@0 enable_thinking@8 input_type@12 prompt_input@16 embed_input@16 token_input@16
  multimodal_input@16
struct RKLLMLoraParam 8 lora_adapter_name@0
struct RKLLMPromptCacheParam 16 save_prompt_cache@0 prompt_cache_path@8
struct RKLLMCrossAttnParam 40 encoder_k_cache@0 encoder_v_cache@8 encoder_mask@16 encoder_pos@24 num_tokens@32
struct RKLLMSamplingParam 36 top_k@0 top_p@4 temperature@8 repeat_penalty@12 frequency_penalty@16
  presence_penalty@20 mirostat@24 mirostat_tau@28 mirostat_eta@32
struct RKLLMInferParam 40 mode@0 lora_params@8 prompt_cache_params@16 sampling_params@24 keep_history@32
  max_new_tokens@36
struct RKLLMResultLastHiddenLayer 16 hidden_states@0 embd_size@8 num_tokens@12
struct RKLLMResultLogits 16 logits@0 vocab_size@8 num_tokens@12
struct RKLLMPerfStat 20 prefill_time_ms@0 prefill_tokens@4 generate_time_ms@8 generate_tokens@12 memory_usage_mb@16
struct RKLLMResult 72 text@0 token_id@8 last_hidden_layer@16 logits@32 perf@48
struct RKLLMCallback 48 result_callback@0 result_userdata@8 tokenizer_callback@16 tokenizer_userdata@24
  embed_callback@32 embed_userdata@40
)";

}  // namespace npu::elf
