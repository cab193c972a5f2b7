// `npu doctor` on boards of other people: what it says of each, and that it says so because of the fact that it names.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/board_tree.h"
#include "tools/run_command.h"

namespace npu::tools::test {

namespace {

using nlohmann::json;

const std::string dmc = "/sys/class/devfreq/dmc/governor";
const std::string big = "/sys/devices/system/cpu/cpufreq/policy4/scaling_governor";
const std::string state = "/run/ggml-npu-doctor.json";

json examined(const BoardTree& tree, int* status = nullptr, const std::string& more = "") {
    const Output output = run("doctor --json --root " + tree.folder() + " " + more);
    if (status != nullptr) {
        *status = output.status;
    }
    EXPECT_LE(output.status, 1) << output.error;
    return json::parse(output.out, nullptr, false);
}

json finding(const json& report, const std::string& check) {
    for (const json& entry : report.at("checks")) {
        if (entry.at("check") == check) {
            return entry;
        }
    }
    ADD_FAILURE() << "no check " << check;
    return {};
}

class Doctor : public testing::TestWithParam<std::string> {};

std::string test_name(const testing::TestParamInfo<std::string>& info) {
    std::string name;
    for (const char c : info.param) {
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    return name;
}

TEST_P(Doctor, SaysOfABoardWhatItsDescriptionExpects) {
    const TreeDescription description = read_tree(GetParam());
    const BoardTree tree(description);
    int status = 0;
    const json report = examined(tree, &status);
    bool problem = false;
    std::set<std::string> seen;
    for (const json& entry : report.at("checks")) {
        const std::string check = entry.at("check");
        const std::string verdict = entry.at("verdict");
        seen.insert(check);
        problem = problem || verdict == "problem";
        ASSERT_TRUE(description.expected.count(check)) << "the description does not say what is expected of " << check;
        EXPECT_EQ(verdict, description.expected.at(check)) << entry.dump(1);
        EXPECT_FALSE(entry.at("summary").get<std::string>().empty()) << check;
        if (verdict == "problem" || (verdict == "warning" && check != "driver")) {
            EXPECT_FALSE(entry.at("remedy").get<std::string>().empty()) << entry.dump(1);
            EXPECT_FALSE(entry.at("evidence").empty()) << entry.dump(1);
        }
        if (verdict == "ok") {
            EXPECT_TRUE(entry.at("settings").empty()) << entry.dump(1);
        }
    }
    for (const auto& [check, verdict] : description.expected) {
        EXPECT_TRUE(seen.count(check)) << "there is no check " << check;
    }
    EXPECT_EQ(status, problem ? 1 : 0);
}

TEST_P(Doctor, ChangesItsVerdictWhenTheFactChanges) {
    const TreeDescription description = read_tree(GetParam());
    EXPECT_FALSE(description.changes.empty()) << "a description without a change shows nothing";
    for (const TreeChange& change : description.changes) {
        BoardTree tree(description);
        EXPECT_NE(change.verdict, description.expected.at(change.check)) << "this change has to change something";
        tree.apply(change.lines);
        const json entry = finding(examined(tree), change.check);
        EXPECT_EQ(entry.at("verdict"), change.verdict) << (change.lines.empty() ? "" : change.lines.front()) << "\n"
                                                       << entry.dump(1);
    }
}

INSTANTIATE_TEST_SUITE_P(Boards, Doctor, testing::ValuesIn(tree_names()), test_name);

TEST(DoctorBoards, AreAtLeast25AndGiveEachCheckSeveralVerdicts) {
    EXPECT_GE(tree_names().size(), 25U);
    std::map<std::string, std::set<std::string>> verdicts;
    for (const std::string& name : tree_names()) {
        const TreeDescription description = read_tree(name);
        for (const auto& [check, verdict] : description.expected) {
            verdicts[check].insert(verdict);
        }
        for (const TreeChange& change : description.changes) {
            verdicts[change.check].insert(change.verdict);
        }
    }
    EXPECT_GE(verdicts.size(), 18U);
    verdicts.erase("self-test");  // made on request, below
    for (const auto& [check, several] : verdicts) {
        EXPECT_GE(several.size(), 2U) << check;
    }
}

TEST(DoctorEvidence, NamesTheFileAndWhatItSaid) {
    BoardTree tree(read_tree("radxa-rock-5b-ddr-parked"));
    const auto said = [&tree] { return finding(examined(tree), "ddr").dump(); };
    EXPECT_NE(said().find(R"({"file":"/sys/class/devfreq/dmc/cur_freq","said":"528000000"})"), std::string::npos)
        << said();
    tree.write("/sys/class/devfreq/dmc/cur_freq", "1068000000\n");
    EXPECT_NE(said().find(R"("said":"1068000000")"), std::string::npos) << said();
    EXPECT_NE(said().find("echo performance | sudo tee " + dmc), std::string::npos) << said();
}

TEST(DoctorEvidence, AdvisesTheGroupThatOwnsTheNode) {
    BoardTree tree(read_tree("orangepi-5-plus-no-group"));
    const json before = finding(examined(tree), "nodes");
    EXPECT_NE(before.at("remedy").get<std::string>().find(" -aG "), std::string::npos) << before.dump(1);
    EXPECT_NE(before.at("evidence").dump().find("group video"), std::string::npos) << before.dump(1);
    tree.apply({"file /etc/group = x;reboot:x:@GID@:rock\\n"});
    EXPECT_EQ(finding(examined(tree), "nodes").dump().find("reboot"), std::string::npos) << "only words are advised";
}

TEST(DoctorFix, SetsGovernorsAndUndoPutsTheOldOnesBack) {
    const BoardTree tree(read_tree("radxa-rock-5b-fresh"));
    const json report = examined(tree, nullptr, "--fix");
    EXPECT_EQ(report.at("changes").size(), 5U) << report.at("changes").dump(1);
    EXPECT_EQ(report.at("changes").at(0).at("file"), dmc) << "the memory controller comes first";
    EXPECT_EQ(tree.content(dmc), "performance");
    EXPECT_EQ(tree.content(big), "performance");
    EXPECT_EQ(finding(report, "cpu-governors").at("verdict"), "ok") << "it looks again after it has changed something";

    // A second run has nothing to do and must not forget what stood there first.
    EXPECT_TRUE(examined(tree, nullptr, "--fix").at("changes").empty());
    const Output undone = run("doctor --undo --root " + tree.folder());
    EXPECT_EQ(undone.status, 0) << undone.error;
    EXPECT_EQ(tree.content(dmc), "dmc_ondemand");
    EXPECT_EQ(tree.content(big), "schedutil");
    EXPECT_EQ(tree.content(state), "(missing)");
    EXPECT_EQ(run("doctor --undo --root " + tree.folder()).status, 2) << "there is nothing left to undo";
}

TEST(DoctorFix, KeepsTheOldestValueWhenItRunsTwice) {
    const BoardTree tree(read_tree("radxa-rock-5b-fresh"));
    examined(tree, nullptr, "--fix");
    tree.write(big, "ondemand\n");
    EXPECT_EQ(examined(tree, nullptr, "--fix").at("changes").size(), 1U);
    EXPECT_EQ(run("doctor --undo --root " + tree.folder()).status, 0);
    EXPECT_EQ(tree.content(big), "schedutil");
}

TEST(DoctorFix, LeavesAloneWhatSomebodyElseChangedSince) {
    const BoardTree tree(read_tree("radxa-rock-5b-fresh"));
    examined(tree, nullptr, "--fix");
    tree.write(big, "ondemand\n");
    const Output undone = run("doctor --undo --root " + tree.folder());
    EXPECT_EQ(tree.content(big), "ondemand\n");
    EXPECT_NE(undone.out.find("left at ondemand"), std::string::npos) << undone.out;
    EXPECT_EQ(tree.content(dmc), "dmc_ondemand");
}

TEST(DoctorFix, NeverOffersAGovernorThatTheKernelLacks) {
    BoardTree tree(read_tree("radxa-rock-5b-ddr-parked"));
    EXPECT_EQ(finding(examined(tree), "ddr").at("settings").size(), 1U);
    tree.write("/sys/class/devfreq/dmc/available_governors", "dmc_ondemand userspace\n");
    EXPECT_EQ(finding(examined(tree), "ddr").at("settings").size(), 0U);
}

TEST(DoctorFix, DoesNotWriteOutsideItsFolder) {
    const BoardTree victim(read_tree("radxa-rock-5b-ddr-parked"));
    BoardTree tree(read_tree("radxa-rock-5b-ddr-parked"));
    tree.apply({"link " + dmc + " -> " + victim.folder() + dmc});
    examined(tree, nullptr, "--fix");
    EXPECT_EQ(victim.content(dmc), "dmc_ondemand");
    // The same link inside the folder is followed.
    tree.apply({"link " + dmc + " -> /elsewhere", "file /elsewhere = dmc_ondemand"});
    examined(tree, nullptr, "--fix");
    EXPECT_EQ(tree.content("/elsewhere"), "performance");
}

TEST(DoctorFix, ChangesNothingWithoutAPlaceForTheOldValues) {
    BoardTree tree(read_tree("radxa-rock-5b-ddr-parked"));
    tree.apply({"remove /run"});
    const Output output = run("doctor --fix --root " + tree.folder());
    EXPECT_EQ(output.status, 2);
    EXPECT_NE(output.error.find(state), std::string::npos) << output.error;
    EXPECT_EQ(tree.content(dmc), "dmc_ondemand");
}

TEST(DoctorCommand, EndsWithTheStatusThatItsHelpPromises) {
    EXPECT_EQ(run("doctor --root " + BoardTree(read_tree("radxa-rock-5b-tuned")).folder()).status, 0);
    EXPECT_EQ(run("doctor --root /no/such/folder").status, 2);
    EXPECT_EQ(run("doctor --fix --undo").status, 2);
    EXPECT_EQ(run("doctor --nonsense").status, 2);
}

TEST(DoctorCommand, WritesNoColoursIntoAPipe) {
    const BoardTree tree(read_tree("radxa-rock-5b-ddr-parked"));
    const Output output = run("doctor --root " + tree.folder());
    EXPECT_EQ(output.status, 1);
    EXPECT_NE(output.out.find("problem  ddr"), std::string::npos) << output.out;
    EXPECT_EQ(output.out.find('\033'), std::string::npos);
}

TEST(DoctorCommand, SurvivesFilesOfNonsenseAndShowsNoneOfTheirControlCharacters) {
    BoardTree tree(read_tree("radxa-rock-5b-fresh"));
    const std::string nonsense =
        "\033[2J\xff\xfe 99999999999999999999999 -1,5-99999999999999999999 v1.999999999999999999999.";
    EXPECT_EQ(run("doctor --root " + tree.folder()).out.find('?'), std::string::npos) << "positive control";
    for (const char* path :
         {"/proc/device-tree/model", "/proc/sys/kernel/osrelease", "/sys/kernel/debug/rknpu/version", "/proc/meminfo",
          "/sys/class/devfreq/dmc/governor", "/sys/class/devfreq/dmc/cur_freq", "/proc/self/limits", "/proc/modules",
          "/sys/class/devfreq/dmc/available_frequencies", "/sys/devices/system/cpu/online", "/etc/group",
          "/sys/devices/system/cpu/present", "/sys/class/thermal/thermal_zone0/temp"}) {
        tree.write(path, nonsense);
    }
    tree.apply({"dir /proc/99999999999999999999999/fd", "file /run/ggml-npu-doctor.json = [{\"file\":1},7,{}]"});
    for (const char* command : {"doctor --all", "probe"}) {
        const Output text = run(command + (" --root " + tree.folder()));
        EXPECT_LE(text.status, 1) << text.error;
        EXPECT_EQ(text.out.find('\033'), std::string::npos) << command;
        EXPECT_NE(text.out.find('?'), std::string::npos) << command;
        const Output report = run(command + (" --json --root " + tree.folder()));
        EXPECT_FALSE(json::parse(report.out, nullptr, false).is_discarded()) << report.out << report.error;
    }
    EXPECT_EQ(run("doctor --undo --root " + tree.folder()).status, 2);
    EXPECT_LE(run("doctor --fix --json --root " + tree.folder()).status, 1);
}

TEST(DoctorSelfTest, FindsTheSimulatedNpuRightBehindBothDrivers) {
    const BoardTree tree(read_tree("radxa-rock-5b-tuned"));
    for (const auto& [device, products] : {std::pair{"simulated", 15U}, std::pair{"simulated-rocket", 5U}}) {
        int status = -1;
        const json entry = finding(examined(tree, &status, std::string("--self-test ") + device), "self-test");
        EXPECT_EQ(status, 0);
        EXPECT_EQ(entry.at("verdict"), "ok") << entry.dump(1);
        EXPECT_EQ(entry.at("evidence").size(), products) << device;
    }
}

TEST(DoctorSelfTest, FindsACoreThatIsGoneAndAJobThatWroteNothing) {
    const BoardTree tree(read_tree("radxa-rock-5b-tuned"));
    for (const auto& [fault, wrong] :
         {std::pair{"core-gone@core=1", "10 of 15"}, std::pair{"stale-output@at=2", "1 of 15"}}) {
        const Output output = run("--help >/dev/null && GGML_NPU_SIM_FAULTS=" + std::string(fault) +
                                  " npu doctor --json --root " + tree.folder() + " --self-test simulated");
        EXPECT_EQ(output.status, 1) << fault;
        const json entry = finding(json::parse(output.out), "self-test");
        EXPECT_EQ(entry.at("verdict"), "problem");
        EXPECT_EQ(entry.at("summary").get<std::string>().rfind(wrong, 0), 0U) << entry.dump(1);
    }
}

TEST(DoctorSelfTest, TouchesNoRealNpuForAnotherBoardsFiles) {
    const BoardTree tree(read_tree("radxa-rock-5b-tuned"));
    EXPECT_EQ(run("doctor --self-test --root " + tree.folder()).status, 2);
}

TEST(ProbeCommand, SaysWhatIsKnownAndWhatIsNot) {
    const BoardTree tree(read_tree("armbian-vendor-plain-user"));
    const json facts = json::parse(run("probe --json --root " + tree.folder()).out);
    EXPECT_EQ(facts.at("npu").at("rknpu"), true);
    EXPECT_TRUE(facts.at("npu").at("rknpu_version").at("value").is_null());
    EXPECT_EQ(facts.at("npu").at("clock").at("hertz").at("value"), 1000000000);
    EXPECT_EQ(facts.at("ddr").at("hertz").at("file"), "/sys/class/devfreq/dmc/cur_freq");
    EXPECT_EQ(facts.at("npu").at("nodes").at(0).at("path"), "/dev/dri/card1");
    EXPECT_EQ(facts.at("npu").at("nodes").size(), 2U) << "the display's card is not an NPU";
    EXPECT_EQ(facts.at("simulated"), false);
    const Output text = run("probe --root " + tree.folder());
    EXPECT_NE(text.out.find("npu.rknpu_version: unknown\n"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("npu.clock.governor: performance\n"), std::string::npos) << text.out;
}

TEST(ProbeCommand, SaysThatAMachineWithoutAnNpuSimulatesOne) {
    const BoardTree tree(read_tree("pc-x86"));
    EXPECT_EQ(json::parse(run("probe --json --root " + tree.folder()).out).at("simulated"), true);
    EXPECT_EQ(run("probe --root /no/such/folder").status, 2);
}

TEST(OptionsCommand, PrintsTheWholeTable) {
    const json options = json::parse(run("options --json").out);
    const std::string text = run("options").out;
    const std::string page = [] {
        std::string content;
        std::ifstream stream(NPU_SOURCE_DIR "/docs/options.md");
        std::getline(stream, content, '\0');
        return content;
    }();
    EXPECT_GT(options.size(), 20U);
    for (const json& option : options) {
        const std::string name = option.at("name");
        EXPECT_NE(text.find(name + " "), std::string::npos) << name;
        EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
    }
    EXPECT_EQ(text.find("GGML_NPU_NO_SUCH "), std::string::npos);
}

}  // namespace

}  // namespace npu::tools::test
