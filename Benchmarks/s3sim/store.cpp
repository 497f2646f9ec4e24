#include "store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "text.h"

namespace s3sim {

Blob::~Blob() {
    if (ownsFile && !path.empty()) unlink(path.c_str());
}

std::vector<Segment> Object::slice(uint64_t offset, uint64_t count) const {
    std::vector<Segment> found;
    for (const Segment &segment : segments) {
        if (count == 0) break;
        if (offset >= segment.byteCount) {
            offset -= segment.byteCount;
            continue;
        }
        uint64_t taken = std::min(count, segment.byteCount - offset);
        found.push_back({segment.blob, segment.offset + offset, taken});
        offset = 0;
        count -= taken;
    }
    return found;
}

bool Condition::holds(const Object *current) const {
    if (!ifNoneMatch.empty() && current && tagIsIn(ifNoneMatch, current->tag)) return false;
    if (!ifMatch.empty() && !(current && tagIsIn(ifMatch, current->tag))) return false;
    return true;
}

bool Store::import(const std::string &directory) {
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
        std::string name = entry.path().filename();
        if (!entry.is_directory() || name.starts_with(".")) continue;
        buckets[name];
        importFolder(name, entry.path(), "");
    }
    return !error;
}

void Store::importFolder(
    const std::string &bucket, const std::string &folder, const std::string &prefix) {
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        std::string name = entry.path().filename();
        struct stat status;
        if (lstat(entry.path().c_str(), &status) != 0) continue;
        if (S_ISDIR(status.st_mode)) {
            importFolder(bucket, entry.path(), prefix + name + "/");
        } else if (S_ISREG(status.st_mode)) {
            auto blob = std::make_shared<Blob>();
            blob->path = entry.path();
            blob->byteCount = static_cast<uint64_t>(status.st_size);
            auto object = std::make_shared<Object>();
            object->byteCount = blob->byteCount;
            object->segments.push_back({blob, 0, blob->byteCount});
            object->modified = status.st_mtime;
            // Not the digest, which would mean to read a gigabyte at each start; tags of
            // uploads in parts are no digests either, and this one looks like them.
            char tag[48];
            snprintf(
                tag, sizeof tag, "%016lx%016lx-1", static_cast<unsigned long>(status.st_size),
                static_cast<unsigned long>(status.st_ino));
            object->tag = tag;
            buckets[bucket][prefix + name] = object;
        }
    }
}

void Store::makeUp(
    const std::string &bucket, const std::string &prefix, size_t count, size_t perFolder) {
    std::unique_lock lock(mutex);
    auto &keys = buckets[bucket];
    for (size_t number = 0; number < count; number++) {
        char key[64], tag[48];
        if (perFolder == 0) {
            snprintf(key, sizeof key, "f%08zu.txt", number);
        } else {
            snprintf(key, sizeof key, "d%06zu/f%08zu.txt", number / perFolder, number);
        }
        snprintf(tag, sizeof tag, "%032zx", number);
        auto object = std::make_shared<Object>();
        object->byteCount = 1024;
        object->modified = 1700000000 + static_cast<time_t>(number);
        object->tag = tag;
        keys.insert_or_assign(keys.end(), prefix + key, std::move(object));
    }
}

void Store::makeBucket(const std::string &bucket) {
    std::unique_lock lock(mutex);
    buckets[bucket];
}

bool Store::hasBucket(const std::string &bucket) const {
    std::shared_lock lock(mutex);
    return buckets.contains(bucket);
}

std::vector<std::string> Store::bucketNames() const {
    std::shared_lock lock(mutex);
    std::vector<std::string> names;
    for (const auto &[name, keys] : buckets) names.push_back(name);
    return names;
}

bool Store::removeBucket(const std::string &bucket) {
    std::unique_lock lock(mutex);
    auto found = buckets.find(bucket);
    if (found != buckets.end() && !found->second.empty()) return false;
    buckets.erase(bucket);
    return true;
}

ObjectPointer Store::find(const std::string &bucket, const std::string &key) const {
    std::shared_lock lock(mutex);
    auto keys = buckets.find(bucket);
    if (keys == buckets.end()) return nullptr;
    auto found = keys->second.find(key);
    return found == keys->second.end() ? nullptr : found->second;
}

Outcome Store::put(
    const std::string &bucket,
    const std::string &key,
    ObjectPointer object,
    const Condition &condition) {
    // What is replaced may own a file: it is let go after the lock.
    ObjectPointer replaced;
    std::unique_lock lock(mutex);
    auto keys = buckets.find(bucket);
    if (keys == buckets.end()) return Outcome::absent;
    auto found = keys->second.find(key);
    bool exists = found != keys->second.end();
    if (!condition.holds(exists ? found->second.get() : nullptr)) {
        return Outcome::conditionFailed;
    }
    if (exists) {
        replaced = std::exchange(found->second, std::move(object));
    } else {
        keys->second.emplace(key, std::move(object));
    }
    lock.unlock();
    return Outcome::done;
}

Outcome Store::remove(
    const std::string &bucket, const std::string &key, const Condition &condition) {
    ObjectPointer removed;
    std::unique_lock lock(mutex);
    auto keys = buckets.find(bucket);
    if (keys == buckets.end()) return Outcome::absent;
    auto found = keys->second.find(key);
    if (found == keys->second.end()) return Outcome::absent;
    if (!condition.holds(found->second.get())) return Outcome::conditionFailed;
    removed = std::move(found->second);
    keys->second.erase(found);
    lock.unlock();
    return Outcome::done;
}

size_t Store::removeAll(const std::string &bucket, const std::string &prefix) {
    std::vector<ObjectPointer> removed;
    std::unique_lock lock(mutex);
    auto keys = buckets.find(bucket);
    if (keys == buckets.end()) return 0;
    auto at = keys->second.lower_bound(prefix);
    while (at != keys->second.end() && at->first.starts_with(prefix)) {
        removed.push_back(std::move(at->second));
        at = keys->second.erase(at);
    }
    lock.unlock();
    return removed.size();
}

std::pair<uint64_t, uint64_t> Store::count(
    const std::string &bucket, const std::string &prefix) const {
    std::pair<uint64_t, uint64_t> total;
    read(bucket, [&](const Keys &keys) {
        for (auto at = keys.lower_bound(prefix); at != keys.end(); ++at) {
            if (!at->first.starts_with(prefix)) break;
            total.first++;
            total.second += at->second->byteCount;
        }
    });
    return total;
}

std::string Store::beginUpload(Upload upload) {
    std::string id = "upload-" + std::to_string(time(nullptr)) + "-" + std::to_string(unique());
    std::unique_lock lock(mutex);
    openUploads[id] = std::move(upload);
    return id;
}

bool Store::addPart(const std::string &id, int number, ObjectPointer part) {
    std::unique_lock lock(mutex);
    auto found = openUploads.find(id);
    if (found == openUploads.end()) return false;
    std::swap(found->second.parts[number], part);
    lock.unlock();
    return true;
}

std::optional<Upload> Store::upload(const std::string &id) const {
    std::shared_lock lock(mutex);
    auto found = openUploads.find(id);
    if (found == openUploads.end()) return std::nullopt;
    return found->second;
}

std::vector<std::pair<std::string, Upload>> Store::uploads(const std::string &bucket) const {
    std::shared_lock lock(mutex);
    std::vector<std::pair<std::string, Upload>> found;
    for (const auto &each : openUploads) {
        if (each.second.bucket == bucket) found.push_back(each);
    }
    return found;
}

bool Store::endUpload(const std::string &id) {
    std::unique_lock lock(mutex);
    return openUploads.erase(id) > 0;
}

}  // namespace s3sim
