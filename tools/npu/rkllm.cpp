// `npu rkllm`: the interface and the files of the closed RKLLM runtime, checked before anything is loaded.
#include <memory>

#include "elf/file.h"
#include "elf/info.h"
#include "elf/rkllm_abi.h"
#include "elf/rkllm_model.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string which, check, file, runtime, platform;
    bool json = false;
};

Json table_json() {
    Json list = Json::array();
    for (const elf::AbiVersion& v : elf::abi_versions()) {
        Json sizes = Json::object();
        for (const elf::AbiStruct& s : v.structs) {
            sizes[s.name] = s.size;
        }
        list.push_back({{"version", v.version}, {"functions", v.functions.size()}, {"sizes", sizes}});
    }
    return list;
}

void print_version(const elf::AbiVersion& v, const std::string& asked, bool json) {
    Json structs = Json::object();
    std::string text = "interface of " + v.version + (asked == v.version ? "" : " (taken for " + asked + ")") + "\n";
    for (const elf::AbiStruct& s : v.structs) {
        Json fields = Json::object();
        text += format("%s: %u bytes\n", s.name.c_str(), s.size);
        for (const elf::AbiField& f : s.fields) {
            fields[f.name] = f.offset;
            text += format("  %4u  %s\n", f.offset, f.name.c_str());
        }
        structs[s.name] = {{"size", s.size}, {"offsets", fields}};
    }
    json ? print(Json{{"version", v.version}, {"functions", v.functions}, {"structs", structs}}) : print(text);
}

// A version, or a library that states one.
std::string version_of(const std::string& which) {
    if (!elf::exists(which)) {
        return which;
    }
    const elf::Image image = open_image(which);
    const std::string version = elf::describe(image, dynamic_of(image), elf::Strings(image)).runtime_version;
    if (version.empty()) {
        fail(which + ": states no RKLLM version; name one", elf_nothing);
    }
    return version;
}

void check_binding(const Options& options, const elf::AbiVersion& version) {
    const auto bytes = elf::read_file(options.check);
    if (!bytes) {
        fail(bytes.error().message, elf_io);
    }
    const auto binding = elf::read_binding(std::string(bytes->begin(), bytes->end()), options.check);
    if (!binding) {
        fail(binding.error().message, elf_malformed);
    }
    Json list = Json::array();
    std::string text;
    bool harmful = false;
    for (const elf::AbiFinding& f : elf::check_binding(*binding, version)) {
        list.push_back({{"struct", f.structure}, {"message", f.message}, {"harmful", f.harmful}});
        text += (f.harmful ? "harmful: " : "note: ") + f.structure + ": " + f.message + "\n";
        harmful |= f.harmful;
    }
    options.json
        ? print(Json{{"version", version.version}, {"structs", binding->size()}, {"findings", list}})
        : print(text + format("%zu structs checked against version %s\n", binding->size(), version.version.c_str()));
    if (harmful) {
        fail("", 1);
    }
}

void run_abi(const Options& options) {
    if (options.which.empty() && options.check.empty()) {
        if (options.json) {
            print(table_json());
            return;
        }
        std::string text;
        for (const elf::AbiVersion& v : elf::abi_versions()) {
            text += v.version + ":";
            for (const elf::AbiStruct& s : v.structs) {
                text += format(" %s %u", s.name.c_str(), s.size);
            }
            text += "\n";
        }
        print(text);
        return;
    }
    const std::string asked = options.which.empty() ? elf::abi_versions().back().version : version_of(options.which);
    const elf::AbiVersion* version = elf::find_abi(asked);
    if (version == nullptr) {
        fail("no known interface of version " + asked + "; `npu rkllm abi` lists them", elf_nothing);
    }
    options.check.empty() ? print_version(*version, asked, options.json) : check_binding(options, *version);
}

void run_model(const Options& options) {
    const auto file = elf::MappedFile::open(options.file);
    if (!file) {
        fail(file.error().message, elf_io);
    }
    const auto model = elf::read_rkllm(file->bytes(), options.file);
    if (!model) {
        fail(model.error().message, model.error().code == ErrorCode::unsupported ? elf_not_supported : elf_malformed);
    }
    const auto warnings = elf::rkllm_warnings(*model, options.runtime, options.platform);
    Json keys = Json::array();
    std::string text = format("container version %u, %llu tensors, %zu keys; %zu bytes of the mask found%s\n",
                              model->version, static_cast<unsigned long long>(model->tensors), model->keys.size(),
                              model->mask_bytes, model->magic_agrees ? "" : ", and the magic does not agree with it");
    text += "toolkit: " + (model->toolkit.empty() ? std::string("not stated") : model->toolkit) + "\n";
    for (const elf::RkllmKey& k : model->keys) {
        keys.push_back({{"name", k.name}, {"complete", k.complete}, {"type", k.type}, {"value", k.value}});
        text += format("  %-40s type %-2u %s\n", k.name.c_str(), k.type, one_line(k.value).c_str());
    }
    Json program = nullptr;
    if (model->program) {
        const elf::RkllmProgram& p = *model->program;
        program = {{"offset", hex(p.offset)},
                   {"version", p.version},
                   {"model_bytes", p.model_bytes},
                   {"task_bytes", p.task_bytes},
                   {"command_bytes", p.command_bytes}};
        text += format("NPU programs at 0x%llx: version %llu, %llu bytes of model, %llu of tasks, %llu of commands\n",
                       static_cast<unsigned long long>(p.offset), static_cast<unsigned long long>(p.version),
                       static_cast<unsigned long long>(p.model_bytes), static_cast<unsigned long long>(p.task_bytes),
                       static_cast<unsigned long long>(p.command_bytes));
    }
    for (const std::string& w : warnings) {
        text += "warning: " + w + "\n";
    }
    options.json ? print(Json{{"version", model->version},
                              {"tensors", model->tensors},
                              {"toolkit", model->toolkit},
                              {"mask_bytes", model->mask_bytes},
                              {"keys", keys},
                              {"program", program},
                              {"warnings", warnings}})
                 : print(text);
    if (!warnings.empty()) {
        fail("", 1);
    }
}

}  // namespace

void add_rkllm(CLI::App& program) {
    CLI::App* rkllm = program.add_subcommand("rkllm", "Checks bindings and model files of the closed RKLLM runtime");
    rkllm->require_subcommand(1);
    auto options = std::make_shared<Options>();
    CLI::App* abi = rkllm->add_subcommand("abi", "Sizes and offsets of the interface, version by version");
    abi->add_option("VERSION", options->which,
                    "Version, or a librkllmrt.so that states one (default: all; with --check the newest)")
        ->type_name("");
    abi->add_option("--check", options->check, "C header or ctypes binding to compare; status 1 when it would do harm")
        ->type_name("");
    abi->add_flag("--json", options->json, "Prints JSON");
    abi->callback([options] { run_abi(*options); });

    auto model_options = std::make_shared<Options>();
    CLI::App* model = rkllm->add_subcommand("model", "What a .rkllm file says; status 1 when there are warnings");
    model->add_option("FILE", model_options->file, "Model file")->required()->type_name("");
    model->add_option("--runtime", model_options->runtime, "Version of the runtime that is to load it")->type_name("");
    model->add_option("--platform", model_options->platform, "Chip that is to run it, such as rk3588")->type_name("");
    model->add_flag("--json", model_options->json, "Prints JSON");
    model->callback([model_options] { run_model(*model_options); });
}

}  // namespace npu::tools
