// The container of .rkllm files, on files that the test writes with a mask of its own: the reader must find the mask.
#include "elf/rkllm_model.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace npu::elf {
namespace {

class Writer {
  public:
    explicit Writer(unsigned seed) {
        std::mt19937 random(seed);
        for (auto& m : mask_) {
            m = static_cast<std::uint8_t>(random());
        }
        masked("GGUF");
        number(3, 4);
        number(1, 8);
        number(0, 8);
    }
    void number(std::uint64_t value, unsigned bytes) {
        for (unsigned i = 0; i < bytes; ++i) {
            file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
        }
    }
    void string(const std::string& s) {
        number(s.size(), 8);
        masked(s);
    }
    void key(const std::string& name, std::uint32_t type) {
        string(name);
        number(type, 4);
        ++file[16];
    }
    void finish(const std::string& toolkit, bool program) {
        while (file.size() % 32 != 0) {
            file.push_back(0);
        }
        if (program) {
            for (const std::uint64_t v : {0x4d4c4c52ULL, 1ULL, 64ULL, 80ULL, 160ULL}) {
                number(v, 8);
            }
            file.resize(file.size() + 216 + 304);
        }
        const std::string line = "rkllm-toolkit version: " + toolkit;
        file.insert(file.end(), line.begin(), line.end());
    }
    std::vector<std::uint8_t> file;

  private:
    void masked(const std::string& s) {
        for (std::size_t i = 0; i < s.size(); ++i) {
            file.push_back(static_cast<std::uint8_t>(s[i]) ^ mask_[i % 256]);
        }
    }
    std::array<std::uint8_t, 256> mask_{};
};

Writer sample(unsigned seed, std::uint32_t eos_type = 4, const std::string& toolkit = "1.2.3") {
    Writer w(seed);
    w.key("tokenizer.ggml.model", 8);  // as long as general.architecture
    w.string("gpt2");
    w.key("general.architecture", 8);
    w.string("qwen3");
    w.key("rkllm.platform", 8);
    w.string("RK3588");
    w.key("rkllm.core_num", 4);
    w.number(3, 4);
    w.key("rkllm.max_context", 5);
    w.number(4096, 4);
    w.key("tokenizer.ggml.bos_token_id", 4);
    w.number(151643, 4);
    w.key("tokenizer.ggml.eos_token_id", eos_type);
    w.number(151645, 4);
    w.key("tokenizer.ggml.tokens", 9);
    w.number(8, 4);
    w.number(2, 8);
    w.string("a");
    w.string("longer");
    w.key("rkllm.scale_emb", 6);
    w.number(0x3fc00000, 4);
    w.key("some.key.nobody.knows.and.that.is.longer.than.all.the.others", 10);
    w.number(7, 8);
    w.finish(toolkit, true);
    return w;
}

TEST(RkllmModel, TheMaskIsFoundFromTheFileItselfAndNamesBecomeReadable) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        const Writer w = sample(seed);
        const auto model = read_rkllm(w.file, "m.rkllm");
        ASSERT_TRUE(model) << model.error().message;
        EXPECT_TRUE(model->magic_agrees);
        ASSERT_NE(model->find("rkllm.platform"), nullptr) << seed;
        EXPECT_EQ(model->find("rkllm.platform")->value, "RK3588");
        EXPECT_EQ(model->find("general.architecture")->value, "qwen3");
        EXPECT_EQ(model->find("rkllm.core_num")->number, 3U);
        EXPECT_EQ(model->find("rkllm.max_context")->value, "4096");
        EXPECT_EQ(model->find("rkllm.scale_emb")->value, "1.5");
        ASSERT_NE(model->find("tokenizer.ggml.eos_token_id"), nullptr);
        EXPECT_EQ(model->find("tokenizer.ggml.eos_token_id")->number, 151645U);
        EXPECT_EQ(model->mask_bytes, 27U) << "as many as the longest public name";
        const RkllmKey& unknown = model->keys.back();
        EXPECT_FALSE(unknown.complete);
        EXPECT_EQ(unknown.name.substr(0, 27), "some.key.nobody.knows.and.t");
        EXPECT_EQ(unknown.value, "7");
        EXPECT_EQ(model->toolkit, "1.2.3");
        ASSERT_TRUE(model->program);
        EXPECT_EQ(model->program->command_bytes, 160U);
    }
}

TEST(RkllmModel, WarningsAreAboutThePairOfFileAndRuntime) {
    const auto old_file = read_rkllm(sample(3).file, "m");
    ASSERT_TRUE(old_file);
    EXPECT_TRUE(rkllm_warnings(*old_file, "1.2.3", "rk3588").empty()) << "control";
    EXPECT_EQ(rkllm_warnings(*old_file, "1.3.0", "rk3588").size(), 1U) << "never stops";
    EXPECT_EQ(rkllm_warnings(*old_file, "1.2.3", "rk3576").size(), 1U) << "platform";
    const auto new_file = read_rkllm(sample(4, 5, "1.3.1").file, "m");
    ASSERT_TRUE(new_file);
    EXPECT_TRUE(rkllm_warnings(*new_file, "1.3.1", "").empty());
    EXPECT_EQ(rkllm_warnings(*new_file, "1.2.3", "").size(), 1U) << "runtime older than toolkit";
    EXPECT_LT(compare_versions("1.2.9", "1.2.10"), 0);
    EXPECT_EQ(compare_versions("1.3", "1.3.0"), 0);
}

TEST(RkllmModel, TornAndForeignFilesAreRefused) {
    const Writer w = sample(5);
    for (std::size_t size = 0; size < 300; size += 7) {
        const auto model = read_rkllm(Bytes(w.file).subspan(0, size), "m");
        ASSERT_FALSE(model) << size;
        EXPECT_NE(model.error().message.find("does not lie in the file"), std::string::npos);
    }
    std::vector<std::uint8_t> other(1000, 0x20);
    const auto model = read_rkllm(other, "m");
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::unsupported);
}

TEST(RkllmModel, DamagedFilesNeverCrash) {
    std::mt19937_64 random(8);
    const Writer w = sample(6);
    int read = 0;
    for (int i = 0; i < 3000; ++i) {
        std::vector<std::uint8_t> file = w.file;
        for (int c = 0; c < 3; ++c) {
            file[random() % file.size()] = static_cast<std::uint8_t>(random());
        }
        read += read_rkllm(file, "m") ? 1 : 0;
    }
    EXPECT_GT(read, 100);
    EXPECT_LT(read, 3000);
}

}  // namespace
}  // namespace npu::elf
