// Encodings of the protocol: hexadecimal, percent, XML, dates.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace s3sim {

std::string lowercased(std::string text);
std::string trimmed(const std::string &text);

// The MD5 digest of bytes as they come.
class Digest {
public:
    Digest();
    ~Digest();
    Digest(const Digest &) = delete;
    Digest &operator=(const Digest &) = delete;

    void add(const void *bytes, size_t count);
    // In hexadecimal; once, at the end.
    std::string finish();

private:
    void *context;
};

std::string fromHex(const std::string &text);

// `plusIsBlank`: as in the query of an address.
std::string percentDecoded(std::string_view text, bool plusIsBlank);
// All but unreserved characters and slashes.
std::string percentEncoded(const std::string &text);

std::string xmlEscaped(const std::string &text);
// What stands between each <tag> and </tag>, unescaped.
std::vector<std::string> xmlValues(const std::string &document, const std::string &tag);

// "Tue, 01 Dec 2026 10:00:00 GMT"
std::string httpDate(time_t time);
// -1 for what is no date.
time_t parsedHTTPDate(const std::string &text);
// "2026-12-01T10:00:00.000Z"
std::string isoDate(time_t time);

// An entity tag without its quotes and without the mark of a weak one.
std::string unquotedTag(std::string tag);
// Whether a tag is in the list of an If-Match or If-None-Match header.
bool tagIsIn(const std::string &list, const std::string &tag);

}  // namespace s3sim
