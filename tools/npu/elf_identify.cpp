// `npu elf identify`: which revision of llama.cpp a closed library tracks, with the evidence; and its loops over layers.
#include "elf/identify.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "elf/file.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

namespace fs = std::filesystem;

struct Options {
    std::string path, layer = "l_out";
    std::vector<std::string> sources;
    std::size_t most = 20;
    bool json = false;
};

elf::SourceTexts read_tree(const std::string& folder) {
    elf::SourceTexts texts;
    texts.name = folder;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && it != end; it.increment(error)) {
        const std::string extension = it->path().extension().string();
        const bool source = extension == ".c" || extension == ".cpp" || extension == ".h" || extension == ".hpp";
        std::error_code ignored;
        if (source && it->is_regular_file(ignored)) {
            if (const auto bytes = elf::read_file(it->path().string())) {
                elf::read_source({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, texts);
            }
        }
    }
    if (error || texts.files == 0) {
        fail(folder + ": " + (error ? error.message() : "no C or C++ sources in it"), elf_io);
    }
    return texts;
}

Json some(const std::vector<std::string>& all, std::size_t most) {
    return {{"count", all.size()},
            {"some", std::vector<std::string>(all.begin(),
                                              all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size())))}};
}

void run(const Options& options) {
    std::vector<elf::SourceTexts> trees;
    for (const std::string& source : options.sources) {
        trees.push_back(read_tree(source));
    }
    const elf::Program program = open_program(options.path);
    const elf::References references = elf::find_references(program);
    const elf::Identification result = elf::identify(program, references, trees);
    Json scores = Json::array();
    std::string text =
        format("%zu distinct assertions; %zu texts that some tree has\n", result.assertions, result.shared_texts);
    for (const elf::SourceScore& s : result.scores) {
        scores.push_back({{"source", s.name},
                          {"assertions_present", s.assertions_present},
                          {"texts_present", s.literals_present},
                          {"only_here", some(s.only_here, options.most)},
                          {"missing_here", some(s.missing_here, options.most)},
                          {"not_in_library", some(s.not_in_library, options.most)}});
        text += s.name + format(": %zu of %zu assertions, %zu texts; %zu of its assertions are not in the library\n",
                                s.assertions_present, result.assertions, s.literals_present, s.not_in_library.size());
        for (const auto& [mark, list] : {std::pair("  + ", &s.only_here), std::pair("  - ", &s.missing_here)}) {
            for (std::size_t i = 0; i < std::min(options.most, list->size()); ++i) {
                text += mark + one_line((*list)[i].substr(0, 160)) + "\n";
            }
        }
    }
    Json loops = Json::array();
    for (const elf::LayerLoop& l : elf::find_layer_loops(program, references, options.layer)) {
        Json callbacks = Json::array();
        for (const std::uint64_t c : l.callbacks) {
            callbacks.push_back(hex(c));
        }
        const std::string reg = l.index_register < 0 ? "" : format("x%d", l.index_register);
        loops.push_back({{"function", program.name_of(l.function)},
                         {"site", hex(l.site)},
                         {"start", hex(l.start)},
                         {"end", hex(l.end)},
                         {"callbacks", callbacks},
                         {"index", reg}});
        text += "layer loop in " + program.name_of(l.function) + ": " + options.layer + " at " + hex(l.site) +
                (l.end == 0 ? ", no loop around it" : ", loop " + hex(l.start) + " to " + hex(l.end)) +
                (reg.empty() ? "" : ", counts in " + reg) +
                (l.callbacks.empty() ? "" : ", callback at " + hex(l.callbacks[0])) + "\n";
    }
    if (result.tie) {
        text += "the best two trees cannot be told apart\n";
    }
    options.json ? print(Json{{"assertions", result.assertions},
                              {"shared_texts", result.shared_texts},
                              {"tie", result.tie},
                              {"scores", scores},
                              {"layer_loops", loops}})
                 : print(text);
    if (result.shared_texts == 0) {
        fail("no text of the library is in any of the trees", elf_nothing);
    }
    if (result.tie) {
        fail("", elf_ambiguous);
    }
}

}  // namespace

void add_elf_identify(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("identify", "Which revision of llama.cpp a library was built from");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_option("--source", options->sources, "Source trees to compare with")->required()->type_name("");
    command->add_option("--layer", options->layer, "Name of a layer's output (default l_out)")->type_name("");
    command->add_option("--most", options->most, "So many pieces of evidence of each kind (default 20)")->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
