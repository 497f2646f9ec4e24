// Uploads in parts.
#include <cstdlib>

#include "exchange.h"
#include "text.h"

namespace s3sim {

bool Exchange::answerMultipart() {
    if (request.method == "POST" && request.asks("uploads")) return beginUpload();
    if (request.method == "PUT") return storePart();
    if (request.method == "GET") return listParts();
    if (request.method == "POST") return completeUpload();
    if (request.method != "DELETE") {
        return refuse({405, "Method Not Allowed"}, "MethodNotAllowed");
    }
    if (!server.store.endUpload(request.asked("uploadId"))) return refuseAbsent("NoSuchUpload");
    return reply({204, "No Content"}, "");
}

bool Exchange::beginUpload() {
    std::string id = server.store.beginUpload(
        {request.bucket, request.key, request.storedHeaders(), {}});
    return replyDocument(
        "<InitiateMultipartUploadResult><Bucket>" + request.bucket + "</Bucket><Key>"
        + xmlEscaped(request.key) + "</Key><UploadId>" + id
        + "</UploadId></InitiateMultipartUploadResult>");
}

bool Exchange::storePart() {
    bool isCopy = !request.header("x-amz-copy-source").empty();
    std::shared_ptr<Object> part;
    if (isCopy) {
        bool isAnswered = false;
        ObjectPointer source = copySource(isAnswered);
        if (!source) return isAnswered;
        uint64_t offset = 0, count = source->byteCount;
        std::string range = request.header("x-amz-copy-source-range");
        if (!range.empty() && !parsedRange(range, source->byteCount, offset, count)) {
            return refuse({400, "Bad Request"}, "InvalidArgument");
        }
        part = std::make_shared<Object>();
        part->segments = source->slice(offset, count);
        part->byteCount = count;
        part->modified = time(nullptr);
        // The bytes are not read for it: a tag of the form of a digest, made up.
        Digest digest;
        std::string origin = source->tag + " " + std::to_string(offset);
        digest.add(origin.data(), origin.size());
        part->tag = digest.finish();
    } else {
        part = objectOfBody();
    }
    std::string tag = part->tag, date = isoDate(part->modified);
    int number = atoi(request.asked("partNumber").c_str());
    if (!server.store.addPart(request.asked("uploadId"), number, std::move(part))) {
        return refuseAbsent("NoSuchUpload");
    }
    if (!isCopy) return reply({200, "OK"}, "ETag: \"" + tag + "\"\r\n");
    return replyDocument(
        "<CopyPartResult><LastModified>" + date + "</LastModified><ETag>&quot;" + tag
        + "&quot;</ETag></CopyPartResult>");
}

bool Exchange::listParts() {
    std::optional<Upload> upload = server.store.upload(request.asked("uploadId"));
    if (!upload) return refuseAbsent("NoSuchUpload");
    int after = atoi(request.asked("part-number-marker").c_str());
    std::string document = "<ListPartsResult><Bucket>" + request.bucket + "</Bucket><UploadId>"
        + request.asked("uploadId") + "</UploadId><IsTruncated>false</IsTruncated>";
    for (const auto &[number, part] : upload->parts) {
        if (number <= after) continue;
        document += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>&quot;"
            + part->tag + "&quot;</ETag><Size>" + std::to_string(part->byteCount)
            + "</Size></Part>";
    }
    return replyDocument(document + "</ListPartsResult>");
}

bool Exchange::completeUpload() {
    constexpr uint64_t leastPart = 5 << 20;
    const std::string id = request.asked("uploadId");
    std::optional<Upload> upload = server.store.upload(id);
    if (!upload) return refuseAbsent("NoSuchUpload");
    auto numbers = xmlValues(body.blob->memory, "PartNumber");
    auto tags = xmlValues(body.blob->memory, "ETag");
    if (numbers.empty() || numbers.size() != tags.size()) {
        return refuse({400, "Bad Request"}, "MalformedXML");
    }
    auto object = std::make_shared<Object>();
    Digest digest;
    int last = 0;
    for (size_t index = 0; index < numbers.size(); index++) {
        int number = atoi(numbers[index].c_str());
        auto found = upload->parts.find(number);
        bool isKnown = found != upload->parts.end() && number > last
            && unquotedTag(tags[index]) == found->second->tag;
        if (!isKnown) return refuse({400, "Bad Request"}, "InvalidPart");
        const Object &part = *found->second;
        if (index + 1 < numbers.size() && part.byteCount < leastPart) {
            return refuse({400, "Bad Request"}, "EntityTooSmall");
        }
        last = number;
        object->byteCount += part.byteCount;
        object->segments.insert(
            object->segments.end(), part.segments.begin(), part.segments.end());
        std::string bytes = fromHex(part.tag);
        digest.add(bytes.data(), bytes.size());
    }
    object->tag = digest.finish() + "-" + std::to_string(numbers.size());
    object->modified = time(nullptr);
    object->headers = upload->headers;
    std::string tag = object->tag;
    switch (server.store.put(
        request.bucket, request.key, std::move(object), request.condition())) {
    case Outcome::done: break;
    case Outcome::conditionFailed: return refuseCondition();
    case Outcome::absent: return refuseAbsent("NoSuchBucket");
    }
    server.store.endUpload(id);
    return replyDocument(
        "<CompleteMultipartUploadResult><Bucket>" + request.bucket + "</Bucket><Key>"
        + xmlEscaped(request.key) + "</Key><ETag>&quot;" + tag
        + "&quot;</ETag></CompleteMultipartUploadResult>");
}

}  // namespace s3sim
