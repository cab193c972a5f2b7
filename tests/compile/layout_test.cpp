#include "compile/layout.h"

#include <gtest/gtest.h>

#include "support.h"

namespace npu::compile {
namespace {

TEST(Layout, padding_rounds_up_to_channel_blocks_and_kernel_groups) {
    EXPECT_EQ(padded_channels(Precision::int8, 1), 32U);
    EXPECT_EQ(padded_channels(Precision::fp16, 64), 64U);
    EXPECT_EQ(padded_channels(Precision::fp16, 65), 96U);
    EXPECT_EQ(padded_channels(Precision::tf32, 17), 32U);
    EXPECT_EQ(padded_kernels(Precision::int8, 33), 64U);
    EXPECT_EQ(padded_kernels(Precision::fp16, 33), 48U);
    EXPECT_EQ(padded_kernels(Precision::int4, 1), 64U);
}

TEST(Layout, native_features_put_all_rows_of_an_atom_before_the_next_atom) {
    const FeatureLayout half{Precision::fp16, Arrangement::native, 5, 64};
    EXPECT_EQ(half.offset(0, 7), 14U);
    EXPECT_EQ(half.offset(1, 0), 16U);
    EXPECT_EQ(half.offset(0, 8), 5U * 16);
    EXPECT_EQ(half.offset(3, 21), (2U * 5 + 3) * 16 + 10);
    const FeatureLayout byte{Precision::int8, Arrangement::native, 5, 64};
    EXPECT_EQ(byte.offset(0, 15), 15U);
    EXPECT_EQ(byte.offset(4, 33), (2U * 5 + 4) * 16 + 1);
    EXPECT_EQ(byte.bytes(), 320U);
}

TEST(Layout, row_major_features_are_rows_of_padded_channels) {
    const FeatureLayout layout{Precision::fp16, Arrangement::row_major, 5, 64};
    EXPECT_EQ(layout.offset(2, 3), (2U * 64 + 3) * 2);
}

TEST(Layout, weights_are_groups_of_kernels_of_channel_blocks) {
    const WeightLayout byte{Precision::int8, 64, 96};
    EXPECT_EQ(byte.offset(0, 31), 31U);
    EXPECT_EQ(byte.offset(1, 0), 32U);
    EXPECT_EQ(byte.offset(0, 32), 1024U);      // next channel block of group 0
    EXPECT_EQ(byte.offset(32, 0), 3U * 1024);  // group 1
    EXPECT_EQ(byte.offset(35, 70), 3U * 1024 + 2 * 1024 + 3 * 32 + 6);
    const WeightLayout half{Precision::fp16, 32, 64};
    EXPECT_EQ(half.offset(17, 33), ((1U * 2 + 1) * 512 + 32 + 1) * 2);
}

TEST(Layout, a_kernel_slice_on_a_group_bound_begins_after_whole_kernels) {
    const WeightLayout layout{Precision::fp16, 96, 160};
    for (std::uint32_t kernel = 0; kernel < 96; kernel += 16) {
        EXPECT_EQ(layout.offset(kernel, 0), std::size_t{kernel} * 160 * 2);
    }
}

TEST(Layout, native_outputs_follow_the_atom_of_the_output_format) {
    const OutputLayout wide{Precision::int32, Arrangement::native, 7, 64};
    EXPECT_EQ(wide.offset(0, 4), 7U * 16);
    EXPECT_EQ(wide.offset(6, 61), (15U * 7 + 6) * 16 + 4);
    const OutputLayout half{Precision::fp16, Arrangement::native, 7, 64};
    EXPECT_EQ(half.offset(6, 61), (7U * 7 + 6) * 16 + 10);
    const OutputLayout rows{Precision::fp32, Arrangement::row_major, 7, 64};
    EXPECT_EQ(rows.offset(6, 61), (6U * 64 + 61) * 4);
}

TEST(Layout, every_layout_is_a_bijection_onto_its_bytes) {
    test::Random random(11);
    for (int round = 0; round < 60; ++round) {
        const std::uint32_t rows = random.between(1, 40);
        const std::uint32_t channels = 32 * random.between(1, 6);
        const std::uint32_t kernels = 32 * random.between(1, 4);
        for (const Precision input :
             {Precision::int8, Precision::fp16, Precision::bf16, Precision::int16, Precision::tf32}) {
            EXPECT_TRUE(check_bijection(WeightLayout{input, kernels, channels}));
            for (const Arrangement arrangement : {Arrangement::native, Arrangement::row_major}) {
                EXPECT_TRUE(check_bijection(FeatureLayout{input, arrangement, rows, channels}));
            }
        }
        for (const Precision output : {Precision::int32, Precision::fp32, Precision::fp16, Precision::int8}) {
            for (const Arrangement arrangement : {Arrangement::native, Arrangement::row_major}) {
                EXPECT_TRUE(check_bijection(OutputLayout{output, arrangement, rows, kernels}));
            }
        }
    }
}

TEST(Layout, the_bijection_check_refuses_unpadded_dimensions) {
    EXPECT_FALSE(check_bijection(WeightLayout{Precision::int8, 48, 64}));
    EXPECT_FALSE(check_bijection(WeightLayout{Precision::fp16, 48, 40}));
    EXPECT_FALSE(check_bijection(FeatureLayout{Precision::int8, Arrangement::native, 4, 40}));
    EXPECT_FALSE(check_bijection(OutputLayout{Precision::fp16, Arrangement::native, 4, 12}));
    EXPECT_FALSE(check_bijection(WeightLayout{Precision::int4, 32, 64}));
}

TEST(Layout, halves_of_bytes_are_laid_out_too) {
    EXPECT_TRUE(check_bijection(FeatureLayout{Precision::int4, Arrangement::native, 5, 96}));
    EXPECT_TRUE(check_bijection(WeightLayout{Precision::int4, 128, 96}));
    const WeightLayout weights{Precision::int4, 128, 96};
    EXPECT_EQ(weights.bytes(), 128U * 96 / 2);
    EXPECT_EQ(weights.offset(0, 2), 1U);
    EXPECT_EQ(weights.offset(0, 3), 1U) << "the high half of the same byte";
    EXPECT_EQ(weights.offset(1, 0), 16U);
    EXPECT_EQ(weights.offset(0, 32), 64U * 16);
    EXPECT_EQ(weights.offset(64, 0), 64U * 96 / 2);
}

}  // namespace
}  // namespace npu::compile
