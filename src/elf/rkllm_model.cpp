#include "elf/rkllm_model.h"

#include <algorithm>
#include <array>

namespace npu::elf {

namespace {

// Public names of keys: those of GGUF that language models have, and those of the toolkit.
constexpr const char* public_keys[] = {"general.architecture",
                                       "general.name",
                                       "general.type",
                                       "general.file_type",
                                       "general.quantization_version",
                                       "general.alignment",
                                       "rkllm.platform",
                                       "rkllm.core_num",
                                       "rkllm.m_align",
                                       "rkllm.version",
                                       "rkllm.max_context",
                                       "rkllm.act_type",
                                       "rkllm.hidden_act_param",
                                       "rkllm.ffn_gate",
                                       "rkllm.ffn_up",
                                       "rkllm.ffn_down",
                                       "rkllm.scale_depth",
                                       "rkllm.scale_emb",
                                       "rkllm.dim_model_base",
                                       "rkllm.chat_template.pre",
                                       "rkllm.chat_template.system",
                                       "rkllm.chat_template.post",
                                       "rkllm.has_embedding",
                                       "rkllm.has_tokenizer",
                                       "rkllm.lora_quant",
                                       "tokenizer.ggml.model",
                                       "tokenizer.ggml.pre",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.scores",
                                       "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges",
                                       "tokenizer.ggml.bos_token_id",
                                       "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.padding_token_id",
                                       "tokenizer.ggml.unknown_token_id",
                                       "tokenizer.ggml.add_bos_token",
                                       "tokenizer.ggml.add_eos_token",
                                       "tokenizer.ggml.add_space_prefix",
                                       "tokenizer.chat_template"};

constexpr std::size_t least_known = 6;  // mask bytes that must agree before a name counts as recognised

struct Mask {
    std::array<std::uint8_t, 256> bytes{};
    std::array<bool, 256> known{};

    [[nodiscard]] bool agrees(Bytes masked, const std::string& plain, std::size_t& compared) const {
        compared = 0;
        for (std::size_t i = 0; i < plain.size(); ++i) {
            if (known[i % 256]) {
                ++compared;
                if ((masked[i] ^ bytes[i % 256]) != static_cast<std::uint8_t>(plain[i])) {
                    return false;
                }
            }
        }
        return true;
    }
    void learn(Bytes masked, const std::string& plain) {
        for (std::size_t i = 0; i < plain.size(); ++i) {
            bytes[i % 256] = masked[i] ^ static_cast<std::uint8_t>(plain[i]);
            known[i % 256] = true;
        }
    }
    [[nodiscard]] std::string open(Bytes masked) const {
        std::string text;
        for (std::size_t i = 0; i < masked.size(); ++i) {
            const auto c = static_cast<char>(masked[i] ^ bytes[i % 256]);
            text += known[i % 256] && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f ? c : '?';
        }
        return text;
    }
};

struct RawKey {
    Bytes name;
    std::uint32_t type = 0;
    std::uint64_t at = 0;  // of the value
};

class Reader {
  public:
    Reader(Bytes file, const std::string& name) : file_(file), name_(name) {}

    Result<RkllmModel> read() {
        const auto version = load<std::uint32_t>(file_, 4);
        const auto tensors = load<std::uint64_t>(file_, 8);
        const auto count = load<std::uint64_t>(file_, 16);
        if (!count) {
            return torn("the header", 0);
        }
        if (*version != 3 || *count == 0 || *count > 65536) {
            return make_error(ErrorCode::unsupported,
                              "%s: this is no .rkllm file of the known kind: version %u (expected 3), %llu keys",
                              name_.c_str(), *version, static_cast<unsigned long long>(*count));
        }
        model_.version = *version;
        model_.tensors = *tensors;
        at_ = 24;
        for (std::uint64_t i = 0; i < *count; ++i) {
            NPU_TRY(read_key());
        }
        find_mask();
        for (const RawKey& raw : raw_) {
            model_.keys.push_back(open(raw));
        }
        model_.mask_bytes = static_cast<std::size_t>(std::count(mask_.known.begin(), mask_.known.end(), true));
        model_.magic_agrees = mask_.open(file_.subspan(0, 4)) == "GGUF";
        read_footer();
        find_program();
        return std::move(model_);
    }

  private:
    [[nodiscard]] Error torn(const char* what, std::uint64_t at) const {
        return make_error(ErrorCode::invalid_argument,
                          "%s: %s at offset 0x%llx does not lie in the file of 0x%zx bytes", name_.c_str(), what,
                          static_cast<unsigned long long>(at), file_.size());
    }

    static std::uint64_t size_of(std::uint32_t type) {
        constexpr std::uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        return type < 13 ? sizes[type] : 0;
    }

    Result<Bytes> string() {
        const auto size = load<std::uint64_t>(file_, at_);
        const auto bytes = size ? part(file_, at_ + 8, *size) : std::nullopt;
        if (!bytes) {
            return torn("a string", at_);
        }
        at_ += 8 + *size;
        return *bytes;
    }

    Result<void> skip(std::uint32_t type) {
        if (type == 8) {
            return string() ? Result<void>() : Result<void>(torn("a string", at_));
        }
        if (type == 9) {
            const auto inner = load<std::uint32_t>(file_, at_);
            const auto count = load<std::uint64_t>(file_, at_ + 4);
            if (!count || *inner == 9 || (*inner != 8 && size_of(*inner) == 0)) {
                return torn("an array", at_);
            }
            at_ += 12;
            if (*inner == 8) {
                for (std::uint64_t i = 0; i < *count; ++i) {  // each takes eight bytes at least, so this ends
                    NPU_TRY(skip(8));
                }
                return {};
            }
            const auto size = checked_multiply(*count, size_of(*inner));
            if (!size || !part(file_, at_, *size)) {
                return torn("an array", at_);
            }
            at_ += *size;
            return {};
        }
        if (size_of(type) == 0 || !part(file_, at_, size_of(type))) {
            return torn("the type or value of a key", at_);
        }
        at_ += size_of(type);
        return {};
    }

    Result<void> read_key() {
        RawKey raw;
        NPU_ASSIGN(raw.name, string());
        const auto type = load<std::uint32_t>(file_, at_);
        if (!type) {
            return torn("the type of a key", at_);
        }
        at_ += 4;
        raw.type = *type;
        raw.at = at_;
        NPU_TRY(skip(*type));
        raw_.push_back(raw);
        return {};
    }

    // How many names are recognised when the mask grows from this beginning as far as it can.
    std::size_t grow(Mask& mask) const {
        std::size_t recognised = 0;
        std::vector<bool> done(raw_.size(), false);
        for (bool more = true; more;) {
            more = false;
            for (std::size_t i = 0; i < raw_.size(); ++i) {
                const std::string* only = nullptr;
                std::size_t candidates = 0;
                static const std::vector<std::string> names(std::begin(public_keys), std::end(public_keys));
                for (const std::string& name : names) {
                    std::size_t compared = 0;
                    if (!done[i] && name.size() == raw_[i].name.size() && mask.agrees(raw_[i].name, name, compared) &&
                        compared >= least_known) {
                        ++candidates;
                        only = &name;
                    }
                }
                if (candidates == 1) {
                    mask.learn(raw_[i].name, *only);
                    done[i] = true;
                    ++recognised;
                    more = true;
                }
            }
        }
        return recognised;
    }

    void find_mask() {
        const std::string first = public_keys[0];
        std::size_t best = 0;
        for (const RawKey& raw : raw_) {
            if (raw.name.size() != first.size()) {
                continue;
            }
            Mask mask;
            mask.learn(raw.name, first);
            const std::size_t recognised = grow(mask);
            if (recognised > best) {  // the right beginning recognises the others, a wrong one none
                best = recognised;
                mask_ = mask;
            }
        }
    }

    [[nodiscard]] RkllmKey open(const RawKey& raw) const {
        RkllmKey key;
        key.name = mask_.open(raw.name);
        key.complete = key.name.find('?') == std::string::npos;
        key.type = raw.type;
        const std::uint64_t size = size_of(raw.type);
        for (std::uint64_t i = 0; i < size; ++i) {
            key.number |= std::uint64_t{*load<std::uint8_t>(file_, raw.at + i)} << (8 * i);
        }
        if (raw.type == 8) {
            const Bytes text = *part(file_, raw.at + 8, *load<std::uint64_t>(file_, raw.at));
            key.value = mask_.open(text.subspan(0, std::min<std::size_t>(text.size(), 64)));
        } else if (raw.type == 9) {
            key.value = format("%llu values",
                               static_cast<unsigned long long>(load<std::uint64_t>(file_, raw.at + 4).value_or(0)));
        } else if (raw.type == 6) {
            const auto bits = static_cast<std::uint32_t>(key.number);
            float value = 0;
            std::memcpy(&value, &bits, sizeof value);
            key.value = format("%g", static_cast<double>(value));
        } else if (raw.type == 12) {
            double value = 0;
            std::memcpy(&value, &key.number, sizeof value);
            key.value = format("%g", value);
        } else {
            const bool is_signed = raw.type == 1 || raw.type == 3 || raw.type == 5 || raw.type == 11;
            key.value = is_signed ? std::to_string(sign_extend(key.number, static_cast<unsigned>(8 * size)))
                                  : std::to_string(key.number);
        }
        return key;
    }

    void read_footer() {
        const std::size_t size = std::min<std::size_t>(file_.size(), 512);
        const std::string_view end(reinterpret_cast<const char*>(file_.data()) + file_.size() - size, size);
        const std::string_view mark = "rkllm-toolkit version: ";
        const std::size_t at = end.rfind(mark);
        if (at != std::string_view::npos) {
            const std::string_view rest = end.substr(at + mark.size());
            model_.toolkit = std::string(rest.substr(0, rest.find_first_not_of("0123456789.abrc")));
        }
    }

    void find_program() {
        for (std::uint64_t at = at_ / 8 * 8; inside(at, 256, file_.size()); at += 8) {
            if (load<std::uint64_t>(file_, at) != 0x4d4c4c52U) {
                continue;
            }
            const auto field = [&](std::uint64_t i) { return load<std::uint64_t>(file_, at + 8 * i).value_or(0); };
            const RkllmProgram p{at, field(1), field(2), field(3), field(4)};
            const auto sum = checked_add(p.model_bytes, p.task_bytes);
            const auto all = sum ? checked_add(*sum, p.command_bytes) : std::nullopt;
            if (p.version != 0 && p.version < 256 && all && inside(at + 256, *all, file_.size())) {
                model_.program = p;
                return;
            }
        }
    }

    Bytes file_;
    const std::string& name_;
    std::uint64_t at_ = 0;
    std::vector<RawKey> raw_;
    Mask mask_;
    RkllmModel model_;
};

}  // namespace

const RkllmKey* RkllmModel::find(const std::string& name) const {
    const auto found = std::find_if(keys.begin(), keys.end(), [&](auto& k) { return k.complete && k.name == name; });
    return found == keys.end() ? nullptr : &*found;
}

Result<RkllmModel> read_rkllm(Bytes file, const std::string& name) { return Reader(file, name).read(); }

int compare_versions(const std::string& a, const std::string& b) {
    const auto next = [](const std::string& text, std::size_t& at) {
        unsigned value = 0;
        for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
            value = std::min(value * 10 + static_cast<unsigned>(text[at] - '0'), 1000000U);
        }
        while (at < text.size() && (text[at] < '0' || text[at] > '9')) {
            ++at;
        }
        return value;
    };
    for (std::size_t i = 0, k = 0; i < a.size() || k < b.size();) {
        const unsigned x = next(a, i), y = next(b, k);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}

std::vector<std::string> rkllm_warnings(const RkllmModel& model, const std::string& runtime,
                                        const std::string& platform) {
    std::vector<std::string> warnings;
    const RkllmKey* eos = model.find("tokenizer.ggml.eos_token_id");
    const bool reads_signed_only = !runtime.empty() && compare_versions(runtime, "1.3.0") >= 0;
    const bool wrote_unsigned =
        eos != nullptr ? eos->type == 4 : !model.toolkit.empty() && compare_versions(model.toolkit, "1.2.3") <= 0;
    if (reads_signed_only && wrote_unsigned) {
        warnings.push_back("the end-of-text token is stored as uint32 (toolkits up to 1.2.3), and runtime " + runtime +
                           " reads int32 only: generation never stops by itself (rknn-llm #534)");
    }
    if (!runtime.empty() && !model.toolkit.empty() && compare_versions(model.toolkit, runtime) > 0) {
        warnings.push_back("made by toolkit " + model.toolkit + ", newer than runtime " + runtime +
                           ": the runtime refuses such files");
    }
    const RkllmKey* made_for = model.find("rkllm.platform");
    const auto lower = [](std::string text) {
        std::transform(text.begin(), text.end(), text.begin(),
                       [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
        return text;
    };
    if (!platform.empty() && made_for != nullptr && lower(made_for->value) != lower(platform)) {
        warnings.push_back("made for " + made_for->value + ", not for " + platform);
    }
    return warnings;
}

}  // namespace npu::elf
