#include "rockchip/chip.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace npu::rockchip {
namespace {

TEST(ChipTest, ChipsThatCanBeSimulatedAreFoundByTheirNamesInAnyCase) {
    for (const char* name : {"RK3588", "rk3588", "Rk3588S", "rk3588s"}) {
        const auto chip = find_chip(name);
        ASSERT_TRUE(chip) << name;
        EXPECT_EQ(*chip, &rk3588()) << name;
        EXPECT_EQ((*chip)->registers, RegisterMap::rk3588);
        EXPECT_EQ((*chip)->cores, 3U);
    }
    for (const char* name : {"RV1106", "rv1106", "rv1103", "RV1103"}) {
        const auto chip = find_chip(name);
        ASSERT_TRUE(chip) << name;
        EXPECT_EQ(*chip, &rv1106()) << name;
        EXPECT_EQ((*chip)->registers, RegisterMap::rv1106);
        EXPECT_EQ((*chip)->cores, 1U);
    }
}

TEST(ChipTest, RelativesOfWhichTooLittleIsKnownAreRefusedWithWhatIsKnownAndWhatIsMissing) {
    struct Refusal {
        const char* name;
        std::vector<const char*> texts;
    };
    const std::vector<Refusal> refusals{
        {"RK3576",
         {"RK3576 is not supported", "2 cores", "two jobs in flight", "16 banks of 64 KiB", "0x1014", "0x1110",
          "0x1088", "0x40ac", "Missing: the fields of its CNA, CORE and DPU registers",
          "RK3588, RK3588S, RV1106, RV1103"}},
        {"rk3568", {"RK3568 is not supported", "1 core", "0x2000", "0x0401", "0x000c", "Missing: ", "CBUF banks"}},
        {"RK3566", {"RK3566 is not supported", "1 core", "0x2000", "Missing: "}},
        {"rk3562", {"RK3562 is not supported", "1 core", "int8 by int4", "Missing: its register map"}},
    };
    for (const Refusal& refusal : refusals) {
        const auto chip = find_chip(refusal.name);
        ASSERT_FALSE(chip) << refusal.name;
        EXPECT_EQ(chip.error().code, ErrorCode::unsupported);
        for (const char* text : refusal.texts) {
            EXPECT_NE(chip.error().message.find(text), std::string::npos)
                << refusal.name << " does not say '" << text << "': " << chip.error().message;
        }
    }
}

TEST(ChipTest, ANameThatMeansNothingIsAnsweredWithTheNamesThatDo) {
    for (const char* name : {"", "RK3588X", "RK358", "rk3588 ", "V100"}) {
        const auto chip = find_chip(name);
        ASSERT_FALSE(chip) << name;
        EXPECT_EQ(chip.error().code, ErrorCode::invalid_argument) << name;
        EXPECT_NE(chip.error().message.find("RK3588, RK3588S, RV1106, RV1103"), std::string::npos)
            << chip.error().message;
    }
}

}  // namespace
}  // namespace npu::rockchip
