// Disabling one assertion of a stripped library: which branch, whether it may be, and a program that survives.
#include "elf/patch.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/sha256.h"
#include "elf/file.h"
#include "fixture.h"

namespace npu::elf {
namespace {

using namespace testing;
namespace fs = std::filesystem;

struct Site {
    AssertSite site;
    Guards guards;
};

// All sites whose expression is this.
std::vector<Site> sites_of(const Program& program, const std::string& expression) {
    std::vector<Site> found;
    const References references = find_references(program);
    for (const AssertSite& s : find_asserts(program, find_sinks(program, references))) {
        if (s.expression == expression) {
            found.push_back({s, find_guards(program, s)});
        }
    }
    return found;
}

Site only_site(const Program& program, const std::string& expression) {
    auto found = sites_of(program, expression);
    EXPECT_EQ(found.size(), 1U) << expression;
    return found.empty() ? Site{} : found.front();
}

Program again(std::vector<std::uint8_t> bytes) {
    auto image = Image::parse(std::move(bytes), "patched.so");
    EXPECT_TRUE(image);
    auto program = Program::analyse(std::move(*image));
    EXPECT_TRUE(program);
    return std::move(*program);
}

const std::string mask_columns = "mask->ne[0] == a->ne[0]";

TEST(Guards, ACanaryIsNeverAGuardToPatchAndTheRealGuardStandsInFrontOfIt) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const Site hardened = only_site(program, "a->ne[0] == 3");
    ASSERT_EQ(hardened.guards.all.size(), 2U);
    const Guard* canary = nullptr;
    const Guard* real = nullptr;
    for (const Guard& g : hardened.guards.all) {
        (g.kind == GuardClass::canary ? canary : real) = &g;
    }
    ASSERT_NE(canary, nullptr);
    ASSERT_NE(real, nullptr);
    EXPECT_FALSE(canary->safe());
    EXPECT_TRUE(real->safe());
    EXPECT_FALSE(forbidden_branch(program, canary->site).empty());
    EXPECT_TRUE(forbidden_branch(program, real->site).empty()) << "control: an ordinary branch is not forbidden";
    const NewPatch made = make_patch(program, hardened.site, hardened.guards, "hardened", false);
    ASSERT_EQ(made.state, PatchState::applies) << made.message;
    ASSERT_EQ(made.patch.places.size(), 1U);
    EXPECT_EQ(made.patch.places[0].address, real->site);

    Patch bad = made.patch;  // somebody points the patch at the canary
    bad.places[0].address = canary->site;
    EXPECT_EQ(check_patch(program, bad).state, PatchState::unsafe);
}

TEST(Guards, SharedTailsNeedAllTheirGuards) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const Site shared = only_site(program, "a->type < 4 && a->nb[0] != 0 && a->ne[2] > mode");
    EXPECT_EQ(shared.guards.deciding(), 3U);
    const NewPatch refused = make_patch(program, shared.site, shared.guards, "shared", false);
    EXPECT_EQ(refused.state, PatchState::unsafe);
    EXPECT_NE(refused.message.find("--all-guards"), std::string::npos);
    const NewPatch made = make_patch(program, shared.site, shared.guards, "shared", true);
    EXPECT_EQ(made.state, PatchState::applies);
    EXPECT_EQ(made.patch.places.size(), 3U);
}

TEST(Guards, AnAssertionInsideACatchBlockIsRefused) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const Site site = only_site(program, "std::strlen(error.what()) > 3");
    const NewPatch made = make_patch(program, site.site, site.guards, "catch", true);
    EXPECT_EQ(made.state, PatchState::unsafe);
    EXPECT_NE(made.message.find("exception"), std::string::npos) << made.message;
}

// What "disabled" means, read from the patched bytes: no way leads into the tail any more, except for the guards left.
TEST(Guards, BehindAPatchNothingLeadsToTheTailAndEverythingElseIsAsBefore) {
    for (const char* name : {"shapes.so", "shapes_small.so", "shapes_fast.so"}) {
        NPU_REQUIRE_FIXTURE(name);
        const Program program = analysed(name);
        const References references = find_references(program);
        const auto sites = find_asserts(program, find_sinks(program, references));
        std::size_t taken = 0, falls = 0, tried = 0;
        for (std::size_t i = 0; i < sites.size(); i += 7) {
            const Guards guards = find_guards(program, sites[i]);
            const NewPatch made = make_patch(program, sites[i], guards, "x", true);
            if (made.state != PatchState::applies) {
                continue;
            }
            ++tried;
            for (const Guard& g : guards.all) {
                taken += g.kind == GuardClass::taken ? 1 : 0;
                falls += g.kind == GuardClass::falls ? 1 : 0;
            }
            auto bytes = apply_patch(program.image(), made.patch, true);
            ASSERT_TRUE(bytes);
            std::size_t changed = 0;
            for (std::size_t b = 0; b < bytes->size(); ++b) {
                changed += (*bytes)[b] != program.image().bytes()[b] ? 1 : 0;
            }
            EXPECT_LE(changed, 4 * made.patch.places.size());
            const Program patched = again(std::move(*bytes));
            for (const AssertSite& s : find_asserts(patched, find_sinks(patched, find_references(patched)))) {
                if (s.site == sites[i].site && s.tail == sites[i].tail) {
                    for (const Guard& g : find_guards(patched, s).all) {
                        EXPECT_NE(g.kind, GuardClass::taken) << name << " " << std::hex << g.site;
                        EXPECT_NE(g.kind, GuardClass::falls) << name << " " << std::hex << g.site;
                    }
                }
            }
        }
        EXPECT_GT(tried, 30U) << name;
        EXPECT_GT(taken, 10U) << name;
        EXPECT_GT(falls, 0U) << name;
    }
}

TEST(Patch, VerifiesAppliesAndRevertsToTheSameHash) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const Site site = only_site(program, mask_columns);
    const NewPatch made = make_patch(program, site.site, site.guards, "mask", false);
    ASSERT_EQ(made.state, PatchState::applies) << made.message;
    const auto read = read_patch(write_patch(made.patch), "patch.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(write_patch(*read), write_patch(made.patch)) << "what is written is read again";
    EXPECT_EQ(check_patch(program, *read).state, PatchState::applies);
    auto bytes = apply_patch(program.image(), *read, true);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(sha256(*bytes), read->patched_sha256);
    EXPECT_NE(sha256(*bytes), read->sha256);
    const Program patched = again(std::move(*bytes));
    EXPECT_EQ(check_patch(patched, *read).state, PatchState::applied);
    EXPECT_FALSE(apply_patch(patched.image(), *read, true)) << "not twice";
    const auto back = apply_patch(patched.image(), *read, false);
    ASSERT_TRUE(back);
    EXPECT_EQ(sha256(*back), read->sha256);
}

TEST(Patch, ContextBytesBannerAndOffsetMustAgree) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const Site site = only_site(program, mask_columns);
    const Patch good = make_patch(program, site.site, site.guards, "mask", false).patch;
    ASSERT_EQ(check_patch(program, good).state, PatchState::applies);
    Patch p = good;
    p.banner = "RKLLM SDK (version: 9.9";
    EXPECT_EQ(check_patch(program, p).state, PatchState::wrong_target);
    p = good;
    p.places[0].offset += 4;
    EXPECT_EQ(check_patch(program, p).state, PatchState::wrong_target);
    p = good;
    p.places[0].before[0] ^= 1;
    p.places[0].expression = "no such assertion";
    EXPECT_EQ(check_patch(program, p).state, PatchState::differs);
    p = good;
    p.sha256[0] = p.sha256[0] == '0' ? '1' : '0';
    EXPECT_EQ(check_patch(program, p).state, PatchState::moved) << "same bytes in another build: must be accepted";
    p = good;
    p.places[0].address = program.image().segments().back().address;
    EXPECT_NE(check_patch(program, p).state, PatchState::applies);
}

TEST(Patch, AMovedPlaceIsFoundByItsAssertionOnlyIfThereIsOne) {
    NPU_REQUIRE_FIXTURE("shapes_fast.so");
    const Program old_build = analysed("shapes.so");
    const Program new_build = analysed("shapes_fast.so");
    const Site site = only_site(old_build, mask_columns);
    const Patch patch = make_patch(old_build, site.site, site.guards, "mask", false).patch;
    const PatchCheck moved = check_patch(new_build, patch);
    ASSERT_EQ(moved.state, PatchState::moved) << moved.message;
    EXPECT_NE(moved.found.places[0].address, patch.places[0].address);
    EXPECT_EQ(moved.found.places[0].address, only_site(new_build, mask_columns).guards.all[0].site);
    EXPECT_EQ(check_patch(new_build, moved.found).state, PatchState::applies);

    const auto many = sites_of(old_build, "step > 0 && \"step must be positive\"");
    const auto repeated = sites_of(old_build, "t->data != nullptr");
    ASSERT_GT(repeated.size(), 10U) << "one per template instance (" << many.size() << ")";
    const NewPatch one = make_patch(old_build, repeated[0].site, repeated[0].guards, "one of many", true);
    ASSERT_EQ(one.state, PatchState::applies) << one.message;
    EXPECT_EQ(check_patch(new_build, one.patch).state, PatchState::ambiguous);
}

TEST(Patch, BadFilesNameTheirField) {
    const auto message = [](const std::string& text) {
        const auto patch = read_patch(text, "p.json");
        EXPECT_FALSE(patch);
        return patch ? std::string() : patch.error().message;
    };
    std::stringstream text;
    text << std::ifstream(NPU_SOURCE_DIR "/tools/patches/rkllm-1.2.3-soft-max-mask.json").rdbuf();
    const std::string good = text.str();
    ASSERT_TRUE(read_patch(good, "p.json")) << "control";
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = good;
        const std::size_t at = changed.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return changed.replace(at, from.size(), to);
    };
    EXPECT_NE(message("{").find("no JSON"), std::string::npos);
    EXPECT_NE(message(with("npu-elf-patch-1", "other")).find("format"), std::string::npos);
    EXPECT_NE(message(with("aarch64", "x86")).find("target.arch"), std::string::npos);
    EXPECT_NE(message(with("\"0x2b55a8\"", "\"here\"")).find("address"), std::string::npos);
    EXPECT_NE(message(with("01090054", "0109005")).find("old"), std::string::npos);
    EXPECT_NE(message(with("1f2003d5", "1f2003d51f2003d5")).find("old, new"), std::string::npos);
    EXPECT_NE(message(with("0x2b55a8", "0x2b55a9")).find("multiples of 4"), std::string::npos);
    EXPECT_NE(message(with("\"places\": [", "\"places\": 3, \"x\": [")).find("places"), std::string::npos);
    EXPECT_FALSE(message(with("\"target\": {", "\"target\": 3, \"x\": {")).empty());
}

TEST(Patch, ThePublishedExampleSaysWhatTheNotesSay) {
    auto bytes = read_file(NPU_SOURCE_DIR "/tools/patches/rkllm-1.2.3-soft-max-mask.json");
    ASSERT_TRUE(bytes);
    const auto patch = read_patch({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, "example");
    ASSERT_TRUE(patch) << patch.error().message;
    ASSERT_EQ(patch->places.size(), 2U);
    const std::uint64_t tails[] = {0x2b56c8, 0x2b56b8};  // where the notes say that the two branches lead
    for (std::size_t i = 0; i < 2; ++i) {
        const PatchPlace& p = patch->places[i];
        const Instruction branch = decode(*load<std::uint32_t>(p.old_bytes, 0), p.address);
        EXPECT_EQ(branch.op, Op::branch_if);
        EXPECT_EQ(branch.target, tails[i]);
        EXPECT_EQ(*load<std::uint32_t>(p.new_bytes, 0), nop_word);
    }
    EXPECT_FALSE(patch->caveat.empty());
}

// A folder with the driver and a library, run under qemu.
class Emulated : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!have("driver") || std::string(NPU_QEMU).find("NOTFOUND") != std::string::npos) {
            GTEST_SKIP() << "\n*** NOT TESTED: no cross compiler or no emulator for AArch64 ***\n";
        }
        std::string pattern = (fs::temp_directory_path() / "npu-elf-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        fs::copy(fixture("driver"), folder_ / "driver");
        fs::copy(fixture("shapes.so"), folder_ / "shapes.so");
    }
    void TearDown() override { fs::remove_all(folder_); }

    Output drive(const std::string& function) const {
        return shell("cd " + folder_.string() + " && " NPU_QEMU " -L /usr/aarch64-linux-gnu ./driver " + function +
                     " 2>&1");
    }
    Output npu(const std::string& arguments) const {
        return shell("cd " + folder_.string() + " && " NPU_COMMAND " elf " + arguments + " 2>&1");
    }
    std::string hash(const std::string& name) const {
        const auto bytes = read_file((folder_ / name).string());
        return bytes ? sha256(*bytes) : "";
    }

    fs::path folder_;
};

TEST_F(Emulated, AnAssertionAbortsUntilItsGuardIsPatchedAndAgainAfterReverting) {
    const Output before = drive("soft_max");
    EXPECT_NE(before.status, 0);
    EXPECT_NE(before.text.find("GGML_ASSERT(mask->ne[0] == a->ne[0]) failed"), std::string::npos) << before.text;
    EXPECT_EQ(drive("good").status, 0) << "control: good arguments survive";
    const std::string original = hash("shapes.so");

    const Output guards = npu("guards shapes.so --assert 'mask->ne.0. =='");
    EXPECT_EQ(guards.status, 0);
    EXPECT_NE(guards.text.find("mask->ne[0] == a->ne[0]"), std::string::npos) << guards.text;
    EXPECT_EQ(npu("patch new shapes.so --assert 'mask->ne.0. ==' --name mask -o p.json").status, 0);
    EXPECT_EQ(npu("patch apply p.json shapes.so -o patched.so --dry-run").status, 0);
    EXPECT_FALSE(fs::exists(folder_ / "patched.so")) << "a dry run writes nothing";
    EXPECT_EQ(npu("patch verify p.json shapes.so").status, 0);
    const Output applied = npu("patch apply p.json shapes.so -o patched.so");
    ASSERT_EQ(applied.status, 0) << applied.text;
    EXPECT_EQ(hash("shapes.so"), original);
    EXPECT_EQ(fs::status(folder_ / "patched.so").permissions(), fs::status(folder_ / "shapes.so").permissions());

    fs::copy(folder_ / "shapes.so", folder_ / "kept.so");
    fs::copy(folder_ / "patched.so", folder_ / "shapes.so", fs::copy_options::overwrite_existing);
    const Output after = drive("soft_max");
    EXPECT_EQ(after.status, 0) << after.text;
    EXPECT_NE(after.text.find("survived"), std::string::npos);
    EXPECT_NE(drive("soft_max_rows").status, 0) << "the assertion beside it still holds";
    EXPECT_EQ(npu("patch apply p.json shapes.so -o twice.so").status, 6);
    EXPECT_EQ(npu("patch verify p.json shapes.so").status, 6);

    ASSERT_EQ(npu("patch revert p.json shapes.so -o back.so").status, 0);
    EXPECT_EQ(hash("back.so"), original);
    fs::copy(folder_ / "back.so", folder_ / "shapes.so", fs::copy_options::overwrite_existing);
    EXPECT_NE(drive("soft_max").status, 0);
    EXPECT_EQ(npu("patch revert p.json shapes.so -o x.so").status, 1) << "there is nothing to revert";
}

TEST_F(Emulated, RefusalsHaveTheirExitStatus) {
    EXPECT_EQ(npu("patch new shapes.so --assert 'a->type < 4' --name s -o s.json").status, 8) << "shared tail";
    EXPECT_EQ(npu("patch new shapes.so --assert 'a->type < 4' --all-guards --name s -o s.json").status, 0);
    EXPECT_EQ(npu("patch new shapes.so --assert 't->data != nullptr' --name m -o m.json").status, 7) << "many sites";
    EXPECT_EQ(npu("patch new shapes.so --assert 'nothing like this' --name n -o n.json").status, 1);
    EXPECT_EQ(npu("patch new shapes.so --assert 'error.what' --name e -o e.json").status, 8) << "exception path";

    const Program program = analysed("shapes.so");
    const Site hardened = only_site(program, "a->ne[0] == 3");
    for (const Guard& g : hardened.guards.all) {
        const std::string command =
            format("patch new shapes.so --branch 0x%llx --name c -o c%llx.json",
                   static_cast<unsigned long long>(g.site), static_cast<unsigned long long>(g.site));
        EXPECT_EQ(npu(command).status, g.kind == GuardClass::canary ? 8 : 0) << command;
    }
    EXPECT_NE(drive("hardened").status, 0);
    ASSERT_EQ(npu("patch new shapes.so --assert 'a->ne.0. == 3' --name h -o h.json").status, 0);
    ASSERT_EQ(npu("patch apply h.json shapes.so --in-place").status, 0);
    EXPECT_TRUE(fs::exists(folder_ / "shapes.so.orig"));
    EXPECT_EQ(drive("hardened").status, 0);
    EXPECT_EQ(npu("patch revert h.json shapes.so --in-place").status, 9) << "the backup exists already";

    fs::create_symlink("shapes.so", folder_ / "link.so");
    EXPECT_EQ(npu("patch revert h.json link.so --in-place").status, 2) << "links need --follow";
    EXPECT_EQ(npu("patch apply h.json nothing.so -o x.so").status, 9);
    EXPECT_EQ(npu("patch apply h.json p.json -o x.so").status, 9);
    EXPECT_EQ(npu("patch apply h.json h.json -o x.so").status, 3);
    std::ofstream(folder_ / "bad.json") << "{}";
    EXPECT_EQ(npu("patch apply bad.json shapes.so -o x.so").status, 4);
    ASSERT_EQ(npu("patch new shapes.so --assert 'mask->ne.0. ==' --name m -o m.json").status, 0);
    EXPECT_EQ(npu("patch apply m.json shapes.so -o /dev/full/x.so").status, 9);
    EXPECT_EQ(npu("patch apply m.json shapes.so -o /proc/x.so").status, 9) << "nothing can be made there";
    EXPECT_EQ(npu("patch apply m.json shapes.so -o ./shapes.so").status, 2) << "not over the library itself";
    // A disk that is full: the limit on the size of files stops the write half way.
    const Output full =
        shell("cd " + folder_.string() +
              " && (trap '' XFSZ; ulimit -f 8; " NPU_COMMAND " elf patch apply m.json shapes.so -o full.so) 2>&1");
    EXPECT_EQ(full.status, 9) << full.text;
    for (const auto& entry : fs::directory_iterator(folder_)) {
        EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << "nothing half-written stays";
        EXPECT_NE(entry.path().filename(), "full.so");
    }
    EXPECT_EQ(npu("info nothing.so").status, 9);
    EXPECT_EQ(npu("nonsense").status, 2);
}

}  // namespace
}  // namespace npu::elf
