// Bodies of requests: plain, in chunks, and in AWS's signed chunks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "exchange.h"
#include "text.h"

namespace s3sim {

namespace {

// Keeps bytes in memory while they are few, and in a file when they become more.
class BlobWriter {
public:
    BlobWriter(std::string path, bool keepInMemory)
        : path(std::move(path)), keepInMemory(keepInMemory) {}
    ~BlobWriter() {
        if (file >= 0) close(file);
    }
    BlobWriter(const BlobWriter &) = delete;
    BlobWriter &operator=(const BlobWriter &) = delete;

    bool write(const char *bytes, size_t count) {
        constexpr uint64_t mostInMemory = 64 << 10;
        digest.add(bytes, count);
        blob->byteCount += count;
        if (file < 0 && (keepInMemory || blob->byteCount <= mostInMemory)) {
            blob->memory.append(bytes, count);
            return true;
        }
        if (file < 0) {
            file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
            if (file < 0) return false;
            blob->path = path;
            blob->ownsFile = true;
            std::string earlier = std::move(blob->memory);
            blob->memory = {};
            if (!writeFile(earlier.data(), earlier.size())) return false;
        }
        return writeFile(bytes, count);
    }

    std::shared_ptr<Blob> blob = std::make_shared<Blob>();
    Digest digest;

private:
    std::string path;
    bool keepInMemory;
    int file = -1;

    bool writeFile(const char *bytes, size_t count) {
        while (count > 0) {
            ssize_t written = ::write(file, bytes, count);
            if (written <= 0) return false;
            bytes += written;
            count -= static_cast<size_t>(written);
        }
        return true;
    }
};

// Takes "length;chunk-signature=…" lines out of a stream; trailers are not looked at.
class SignedChunks {
public:
    explicit SignedChunks(BlobWriter &writer) : writer(writer) {}

    bool feed(const char *bytes, size_t count) {
        while (count > 0) {
            if (state == State::data) {
                size_t part = std::min<uint64_t>(count, left);
                if (!writer.write(bytes, part)) return false;
                bytes += part;
                count -= part;
                left -= part;
                if (left == 0) state = State::dataEnd;
                continue;
            }
            char character = *bytes++;
            count--;
            if (character == '\n') {
                endLine();
            } else if (character != '\r') {
                line += character;
            }
        }
        return true;
    }

private:
    enum class State { length, data, dataEnd, trailers };

    BlobWriter &writer;
    State state = State::length;
    uint64_t left = 0;
    std::string line;

    void endLine() {
        if (state == State::length) {
            left = strtoull(line.c_str(), nullptr, 16);
            state = left > 0 ? State::data : State::trailers;
        } else if (state == State::dataEnd) {
            state = State::length;
        }
        line.clear();
    }
};

}  // namespace

bool Exchange::readBody(bool keepInMemory) {
    std::string path =
        server.blobFolder + "/" + std::to_string(getpid()) + "-"
        + std::to_string(server.store.unique());
    BlobWriter writer(path, keepInMemory);
    SignedChunks signedChunks(writer);
    bool isSigned = request.header("x-amz-content-sha256").starts_with("STREAMING");
    Pace pace(server.link);
    std::vector<char> buffer(std::min<size_t>(256 << 10, pace.step()));

    auto take = [&](uint64_t count) {
        while (count > 0) {
            size_t wanted = std::min<uint64_t>(count, buffer.size());
            size_t got = connection.readSome(buffer.data(), wanted);
            if (got == 0) return false;
            server.counters.bytesIn += got;
            bool works = isSigned ? signedChunks.feed(buffer.data(), got)
                                  : writer.write(buffer.data(), got);
            if (!works) return false;
            pace.moved(got);
            count -= got;
        }
        return true;
    };

    if (lowercased(request.header("transfer-encoding")) == "chunked") {
        std::string line;
        for (;;) {
            if (!connection.readLine(line)) return false;
            uint64_t count = strtoull(line.c_str(), nullptr, 16);
            if (count == 0) break;
            if (!take(count) || !connection.readLine(line)) return false;
        }
        do {
            if (!connection.readLine(line)) return false;
        } while (!line.empty());
    } else if (!take(strtoull(request.header("content-length").c_str(), nullptr, 10))) {
        return false;
    }
    body = {writer.blob, writer.digest.finish()};
    return true;
}

std::shared_ptr<Object> Exchange::objectOfBody() const {
    auto object = std::make_shared<Object>();
    object->byteCount = body.blob->byteCount;
    object->segments.push_back({body.blob, 0, body.blob->byteCount});
    object->modified = time(nullptr);
    object->tag = body.tag;
    return object;
}

}  // namespace s3sim
