#include "doctor_fix.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace npu::tools {

namespace {

std::vector<Change> read_state(const device::BoardRoot& root) {
    std::vector<Change> changes;
    const auto json = nlohmann::json::parse(root.text(fix_state_file).value_or(""), nullptr, false);
    if (json.is_array()) {
        for (const auto& entry : json) {
            Change change;
            bool whole = entry.is_object();
            for (const auto& [key, part] :
                 {std::pair{"file", &change.file}, std::pair{"from", &change.from}, std::pair{"to", &change.to}}) {
                whole = whole && entry.contains(key) && entry.at(key).is_string();
                *part = whole ? entry.at(key).get<std::string>() : "";
            }
            if (whole && change.file.starts_with('/')) {
                changes.push_back(std::move(change));
            }
        }
    }
    return changes;
}

Result<void> write_state(const device::BoardRoot& root, const std::vector<Change>& changes) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Change& change : changes) {
        json.push_back({{"file", change.file}, {"from", change.from}, {"to", change.to}});
    }
    return root.write(fix_state_file, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
                      true);
}

}  // namespace

Result<std::vector<Change>> apply_settings(const device::BoardRoot& root, const std::vector<Setting>& settings) {
    std::vector<Change> state = read_state(root);
    std::vector<Change> todo;
    for (const Setting& setting : settings) {
        const auto now = root.text(setting.file);
        if (!now) {
            return make_error(ErrorCode::device_failure,
                              "cannot read %s, so it could not be put back; nothing was changed", setting.file.c_str());
        }
        if (*now == setting.value) {
            continue;
        }
        const Change change{setting.file, *now, setting.value};
        todo.push_back(change);
        if (std::none_of(state.begin(), state.end(), [&](const Change& old) { return old.file == change.file; })) {
            state.push_back(change);
        }
    }
    if (todo.empty()) {
        return todo;
    }
    NPU_TRY(write_state(root, state));
    for (const Change& change : todo) {
        NPU_TRY(root.write(change.file, change.to));
    }
    return todo;
}

Result<Undone> undo(const device::BoardRoot& root) {
    const std::vector<Change> state = read_state(root);
    if (state.empty()) {
        return make_error(ErrorCode::not_found, "%s has nothing to undo: --fix changed nothing since the last start",
                          fix_state_file);
    }
    Undone undone;
    for (auto change = state.rbegin(); change != state.rend(); ++change) {
        const std::string now = root.text(change->file).value_or("");
        if (now == change->from) {
            continue;  // an interrupted run had not come this far
        }
        if (now != change->to) {
            undone.left.push_back({change->file, now, change->from});
            continue;
        }
        NPU_TRY(root.write(change->file, change->from));
        undone.taken_back.push_back({change->file, change->to, change->from});
    }
    NPU_TRY(root.remove(fix_state_file));
    return undone;
}

}  // namespace npu::tools
