// Listings. A folder of the tree is listed as it is, with the nodes shown as devices; a folder that the machine and the
// tree both have is listed with the entries of both. Programs list folders by opendir() and readdir(); scandir() and
// glob() are built from these here, because the C library's own would not see what is added.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "sim/preload/library.h"
#include "sim/preload/next.h"
#include "sim/preload/own_calls.h"
#include "sim/preload/paths.h"

using namespace npu::sim;           // NOLINT(google-build-using-namespace)
using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

static_assert(sizeof(dirent) == sizeof(dirent64) && offsetof(dirent, d_name) == offsetof(dirent64, d_name));

constinit Next<DIR*(const char*)> next_opendir("opendir");
constinit Next<DIR*(int)> next_fdopendir("fdopendir");
constinit Next<int(DIR*)> next_closedir("closedir");
constinit Next<dirent*(DIR*)> next_readdir("readdir");
constinit Next<void(DIR*)> next_rewinddir("rewinddir");
constinit Next<int(const char*, int, int (*)(const char*, int), glob_t*)> next_glob("glob");

// What a listing has besides what the host's kernel says.
struct Listing {
    std::vector<dirent> added;  // entries of the tree that the machine's folder does not have
    std::size_t next = 0;
};

// Never destroyed: the program may list folders until its very end.
struct Listings {
    std::mutex mutex;
    std::map<DIR*, Listing> of;
    std::atomic<std::size_t> count{0};
};

Listings& listings() {
    static auto* instance = new Listings;
    return *instance;
}

std::vector<dirent> entries_only_in(const char* tree_folder, DIR* machine) {
    std::vector<dirent> entries;
    DIR* folder = next_opendir(tree_folder);
    if (folder == nullptr) {
        return entries;
    }
    while (const dirent* entry = next_readdir(folder)) {
        struct stat status {};
        const std::string_view name = entry->d_name;
        if (name != "." && name != ".." &&
            raw::stat(dirfd(machine), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            entries.push_back(*entry);
        }
    }
    next_closedir(folder);
    return entries;
}

// Remembers an opened folder if its listing needs work. `path` is what it was opened by, from `directory`.
[[gnu::noinline]] DIR* remember(DIR* folder, int directory, const char* path) {
    char tree_folder[PATH_MAX];
    Listing listing;
    if (!is_in_tree(dirfd(folder))) {
        if (!find_tree_folder(directory, path, tree_folder)) {
            return folder;
        }
        listing.added = entries_only_in(tree_folder, folder);
    }
    Listings& all = listings();
    const std::lock_guard lock(all.mutex);
    all.of[folder] = std::move(listing);
    all.count = all.of.size();
    return folder;
}

[[gnu::noinline]] DIR* open_folder(const char* path) {
    Place place;
    find_place(AT_FDCWD, path, true, place);
    DIR* folder = next_opendir(place.path_or(path));
    return folder != nullptr ? remember(folder, AT_FDCWD, path) : nullptr;
}

dirent* read_entry(DIR* folder) {
    const int error = errno;
    dirent* entry = next_readdir(folder);
    Listings& all = listings();
    if (all.count == 0) {
        return entry;
    }
    const std::lock_guard lock(all.mutex);
    const auto known = all.of.find(folder);
    if (known == all.of.end()) {
        return entry;
    }
    if (entry == nullptr && errno == error && known->second.next < known->second.added.size()) {
        entry = &known->second.added[known->second.next++];
    }
    struct stat status {};
    if (entry != nullptr && entry->d_type == DT_REG && raw::stat(dirfd(folder), entry->d_name, &status, 0) == 0 &&
        Library::get().node_of(status) != nullptr) {
        entry->d_type = DT_CHR;
    }
    return entry;
}

int read_entry_into(DIR* folder, dirent* entry, dirent** result) {
    const int before = errno;
    errno = 0;
    const dirent* found = read_entry(folder);
    const int error = errno;
    errno = before;
    *result = nullptr;
    if (found == nullptr) {
        return error;
    }
    std::memcpy(entry, found, offsetof(dirent, d_name) + std::strlen(found->d_name) + 1);
    *result = entry;
    return 0;
}

template <typename Entry>
int scan(const char* path, Entry*** list, int (*select)(const Entry*), int (*compare)(const Entry**, const Entry**)) {
    DIR* folder = opendir(path);
    if (folder == nullptr) {
        return -1;
    }
    std::vector<Entry*> chosen;
    const int before = errno;
    errno = 0;
    while (const dirent* entry = read_entry(folder)) {
        const auto* seen = reinterpret_cast<const Entry*>(entry);
        if (select == nullptr || select(seen) != 0) {
            const std::size_t bytes = offsetof(dirent, d_name) + std::strlen(entry->d_name) + 1;
            auto* copy = static_cast<Entry*>(std::malloc(bytes));
            if (copy == nullptr) {
                break;
            }
            chosen.push_back(static_cast<Entry*>(std::memcpy(copy, entry, bytes)));
        }
        errno = 0;
    }
    const int error = errno;
    closedir(folder);
    auto* answer = static_cast<Entry**>(std::malloc(std::max<std::size_t>(chosen.size(), 1) * sizeof(Entry*)));
    if (error != 0 || answer == nullptr) {
        for (Entry* entry : chosen) {
            std::free(entry);
        }
        std::free(answer);
        errno = error != 0 ? error : ENOMEM;
        return -1;
    }
    std::copy(chosen.begin(), chosen.end(), answer);
    if (compare != nullptr && !chosen.empty()) {
        std::qsort(answer, chosen.size(), sizeof(Entry*), reinterpret_cast<int (*)(const void*, const void*)>(compare));
    }
    *list = answer;
    errno = before;
    return static_cast<int>(chosen.size());
}

template <bool follow>
int stat_for_glob(const char* path, struct stat* status) {
    Place place;
    find_place(AT_FDCWD, path, follow, place);
    const int answer = raw::stat(AT_FDCWD, place.path_or(path), status, follow ? 0 : AT_SYMLINK_NOFOLLOW);
    errno = answer < 0 ? -answer : errno;
    return answer < 0 ? -1 : 0;
}

// glob() with the folders that the program would see.
int glob_here(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
    if ((flags & GLOB_ALTDIRFUNC) == 0) {
        found->gl_opendir = [](const char* path) -> void* { return opendir(path); };
        found->gl_readdir = [](void* folder) { return read_entry(static_cast<DIR*>(folder)); };
        found->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
        found->gl_stat = stat_for_glob<true>;
        found->gl_lstat = stat_for_glob<false>;
    }
    const int answer = next_glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
    if ((flags & GLOB_ALTDIRFUNC) == 0) {
        found->gl_flags &= ~GLOB_ALTDIRFUNC;
    }
    return answer;
}

}  // namespace

NPU_INTERPOSE DIR* opendir(const char* path) {
    return may_be_simulated(AT_FDCWD, path) ? open_folder(path) : next_opendir(path);
}

NPU_INTERPOSE DIR* fdopendir(int fd) {
    DIR* folder = next_fdopendir(fd);
    return folder != nullptr && may_be_simulated(fd, ".") ? remember(folder, fd, ".") : folder;
}

NPU_INTERPOSE int closedir(DIR* folder) {
    Listings& all = listings();
    if (all.count != 0) {
        const std::lock_guard lock(all.mutex);
        all.of.erase(folder);
        all.count = all.of.size();
    }
    return next_closedir(folder);
}

NPU_INTERPOSE dirent* readdir(DIR* folder) { return read_entry(folder); }

NPU_INTERPOSE dirent64* readdir64(DIR* folder) { return reinterpret_cast<dirent64*>(read_entry(folder)); }

NPU_INTERPOSE int readdir_r(DIR* folder, dirent* entry, dirent** result) {
    return read_entry_into(folder, entry, result);
}

NPU_INTERPOSE int readdir64_r(DIR* folder, dirent64* entry, dirent64** result) {
    return read_entry_into(folder, reinterpret_cast<dirent*>(entry), reinterpret_cast<dirent**>(result));
}

NPU_INTERPOSE void rewinddir(DIR* folder) {
    Listings& all = listings();
    if (all.count != 0) {
        const std::lock_guard lock(all.mutex);
        if (const auto known = all.of.find(folder); known != all.of.end()) {
            known->second.next = 0;
        }
    }
    next_rewinddir(folder);
}

NPU_INTERPOSE int scandir(const char* path, dirent*** list, int (*select)(const dirent*),
                          int (*compare)(const dirent**, const dirent**)) {
    return scan(path, list, select, compare);
}

NPU_INTERPOSE int scandir64(const char* path, dirent64*** list, int (*select)(const dirent64*),
                            int (*compare)(const dirent64**, const dirent64**)) {
    return scan(path, list, select, compare);
}

NPU_INTERPOSE int glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
    return glob_here(pattern, flags, on_error, found);
}

NPU_INTERPOSE int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* found) {
    return glob_here(pattern, flags, on_error, reinterpret_cast<glob_t*>(found));
}
