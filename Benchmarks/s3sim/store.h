// What is stored: buckets of objects, and uploads in parts that are not complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace s3sim {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Bytes that never change: in memory, or in a file that goes when its last user is gone.
struct Blob {
    std::string memory;
    std::string path;
    uint64_t byteCount = 0;
    bool ownsFile = false;

    ~Blob();
};

// A stretch of a blob; objects made of parts or by copying share them.
struct Segment {
    std::shared_ptr<Blob> blob;
    uint64_t offset = 0;
    uint64_t byteCount = 0;
};

struct Object {
    std::vector<Segment> segments;
    uint64_t byteCount = 0;
    std::string tag;
    time_t modified = 0;
    // Stored headers, names in lower case.
    Headers headers;

    // The segments of a range of this object.
    std::vector<Segment> slice(uint64_t offset, uint64_t count) const;
};
using ObjectPointer = std::shared_ptr<const Object>;

struct Upload {
    std::string bucket;
    std::string key;
    Headers headers;
    std::map<int, ObjectPointer> parts;
};

// What must be so of a key for a write to happen; both empty: nothing.
struct Condition {
    std::string ifMatch;
    std::string ifNoneMatch;

    bool holds(const Object *current) const;
};

enum class Outcome { done, conditionFailed, absent };

class Store {
public:
    using Keys = std::map<std::string, ObjectPointer>;

    // Every folder of a directory becomes a bucket, every file below it an object, read in
    // place. False when there is no such directory.
    bool import(const std::string &directory);

    // Objects of 1 KiB without content, so many in each folder; 0 for one folder.
    void makeUp(
        const std::string &bucket, const std::string &prefix, size_t count, size_t perFolder);

    void makeBucket(const std::string &bucket);
    bool hasBucket(const std::string &bucket) const;
    std::vector<std::string> bucketNames() const;
    // False when it is not empty.
    bool removeBucket(const std::string &bucket);

    ObjectPointer find(const std::string &bucket, const std::string &key) const;
    Outcome put(
        const std::string &bucket,
        const std::string &key,
        ObjectPointer object,
        const Condition &condition);
    Outcome remove(
        const std::string &bucket, const std::string &key, const Condition &condition);
    // Returns how many there were.
    size_t removeAll(const std::string &bucket, const std::string &prefix);
    std::pair<uint64_t, uint64_t> count(
        const std::string &bucket, const std::string &prefix) const;

    // Runs with the keys of a bucket, which do not change meanwhile; false without a bucket.
    template <typename Work>
    bool read(const std::string &bucket, Work work) const {
        std::shared_lock lock(mutex);
        auto found = buckets.find(bucket);
        if (found == buckets.end()) return false;
        work(found->second);
        return true;
    }

    std::string beginUpload(Upload upload);
    bool addPart(const std::string &id, int number, ObjectPointer part);
    std::optional<Upload> upload(const std::string &id) const;
    std::vector<std::pair<std::string, Upload>> uploads(const std::string &bucket) const;
    bool endUpload(const std::string &id);

    // A number that was never given before.
    uint64_t unique() { return ++counter; }

private:
    mutable std::shared_mutex mutex;
    std::map<std::string, Keys> buckets;
    std::map<std::string, Upload> openUploads;
    std::atomic<uint64_t> counter{0};

    void importFolder(
        const std::string &bucket, const std::string &folder, const std::string &prefix);
};

}  // namespace s3sim
