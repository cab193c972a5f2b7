// Checks of limits, memory and libraries.
#include <algorithm>

#include "base/result.h"
#include "doctor_check.h"

namespace npu::tools {

namespace {

constexpr std::int64_t enough_files = 4096;
constexpr std::int64_t enough_cma = std::int64_t{128} << 20;
constexpr std::int64_t oldest_librknnrt = 10600;       // 1.6, as src/gemm/rknn_library.h
constexpr std::int64_t recommended_librknnrt = 20300;  // 2.3.0
constexpr std::int64_t unknown_librknnrt = 20400;      // 2.4: an interface that nobody described yet

}  // namespace

Finding examine_open_files(const device::BoardFacts& facts) {
    Finding finding;
    finding.evidence = {evidence(facts.user.open_files)};
    if (!facts.user.open_files) {
        finding.summary = "the limit cannot be read";
    } else if (*facts.user.open_files >= 0 && *facts.user.open_files < enough_files) {
        const std::int64_t hard = facts.user.open_files_limit.value.value_or(0);
        finding.verdict = Verdict::warning;
        finding.summary = "too few for Rockchip's libraries with a model";
        finding.remedy =
            hard < 0 || hard >= enough_files
                ? format("ulimit -n %lld", hard < 0 || hard > 65536 ? 65536LL : static_cast<long long>(hard))
                : "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/ggml-npu.conf, and log in again";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "enough";
    }
    return finding;
}

Finding examine_cma(const device::BoardFacts& facts) {
    Finding finding;
    finding.evidence = {evidence(facts.cma)};
    if (facts.npu.iommu && *facts.npu.iommu) {
        finding.verdict = Verdict::ok;
        finding.summary = "not needed: the NPU has an IOMMU";
        finding.evidence.push_back({facts.npu.iommu.file, "there"});
    } else if (!facts.cma) {
        finding.summary = "the kernel does not say";
    } else if (!facts.npu.iommu) {
        finding.summary = "whether it is needed depends on the IOMMU, which is unknown";
    } else if (*facts.cma < enough_cma) {
        finding.verdict = Verdict::problem;
        finding.summary = format("%lld MiB are all the memory of this NPU", static_cast<long long>(*facts.cma >> 20));
        finding.remedy = "enable the IOMMU; else add cma=512M to the kernel's command line";
    } else {
        finding.verdict = Verdict::warning;
        finding.summary = format("%lld MiB are all the memory of this NPU, so only small models fit",
                                 static_cast<long long>(*facts.cma >> 20));
        finding.remedy = "enable the IOMMU";
    }
    return finding;
}

Finding examine_ggml(const device::BoardFacts& facts) {
    Finding finding;
    const device::Software* plugin = find_software(facts, "libggml-npu");
    const device::Software* ggml = find_software(facts, "libggml-base");
    if (plugin == nullptr) {
        finding.summary = "the plugin was not found in the usual folders";
        finding.evidence = {{"libggml-npu.so", "not found"}};
        finding.remedy = "npu doctor --plugin FOLDER, where libggml-npu.so is";
        return finding;
    }
    finding.evidence = {evidence(plugin->version)};
    if (ggml == nullptr) {
        finding.summary = "no libggml-base.so.* was found beside it, or it is linked into the program";
        return finding;
    }
    finding.evidence.push_back(evidence(ggml->version));
    // The plugin says version and commit, the file's name the version.
    const std::string built = plugin->version ? plugin->version->substr(0, plugin->version->find(' ')) : "";
    if (built.empty()) {
        finding.summary = "this plugin does not say what it was built for; it checks itself when it is loaded";
    } else if (built == *ggml->version) {
        finding.verdict = Verdict::ok;
        finding.summary = "both are " + built;
    } else {
        finding.verdict = Verdict::problem;
        finding.summary = format("built for ggml %s, but %s is installed: the plugin will not load", built.c_str(),
                                 ggml->version->c_str());
        finding.remedy = "cmake -DLLAMA_CPP_SOURCE=... with the sources of the installed llama.cpp";
    }
    return finding;
}

Finding examine_librknnrt(const device::BoardFacts& facts) {
    Finding finding;
    const device::Software* library = find_software(facts, "librknnrt");
    if (library == nullptr) {
        finding.verdict = Verdict::ok;
        finding.summary = "not installed, and only GGML_NPU_ENGINE=rknn needs it";
        finding.evidence = {{"librknnrt.so", "not found"}};
        return finding;
    }
    finding.evidence = {evidence(library->version)};
    const auto version = device::version_number(library->version.value.value_or(""));
    if (!version) {
        finding.summary = "it does not say its version";
    } else if (facts.npu.rocket && !facts.npu.vendor) {
        finding.verdict = Verdict::warning;
        finding.summary = "installed, but it works with the vendor's driver only";
        finding.remedy = "use the native engine, which is the default";
    } else if (*version < oldest_librknnrt || *version >= unknown_librknnrt) {
        finding.verdict = Verdict::warning;
        finding.summary = "a release whose interface the engine does not know, and refuses";
        finding.remedy = "install librknnrt 2.3.2, or use the native engine, which is the default";
    } else if (*version < recommended_librknnrt) {
        finding.verdict = Verdict::warning;
        finding.summary = "works; releases before 2.3.0 were reported with wrong results under some drivers";
        finding.remedy = "install librknnrt 2.3.2";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "recommended release";
    }
    return finding;
}

Finding examine_axcl(const device::BoardFacts& facts) {
    Finding finding;
    const device::Software* runtime = find_software(facts, "libaxcl_rt");
    const bool module = std::find(facts.modules.begin(), facts.modules.end(), "axcl_host") != facts.modules.end();
    if (facts.axera_cards.empty()) {
        finding.verdict = Verdict::ok;
        finding.summary = runtime != nullptr ? "a runtime, but no card" : "no card";
        finding.evidence = {{"/sys/bus/pci/devices", "no 1f4b:0650"}};
        if (runtime != nullptr) {
            finding.evidence.push_back(evidence(runtime->version));
        }
        return finding;
    }
    finding.evidence = {{facts.axera_cards.front(), "1f4b:0650"},
                        {"/proc/modules", module ? "axcl_host" : "no axcl_host"},
                        runtime != nullptr ? evidence(runtime->version) : Evidence{"libaxcl_rt.so", "not found"}};
    if (!module) {
        finding.verdict = Verdict::problem;
        finding.summary = "a card without its driver";
        finding.remedy = "sudo modprobe axcl_host (from the axcl package)";
    } else if (runtime == nullptr) {
        finding.verdict = Verdict::problem;
        finding.summary = "a card and its driver, but no runtime";
        finding.remedy = "install the axcl package, which brings /usr/lib/axcl/libaxcl_rt.so";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "card, driver and runtime";
    }
    return finding;
}

}  // namespace npu::tools
