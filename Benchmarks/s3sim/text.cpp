#include "text.h"

#include <openssl/evp.h>

#include <array>
#include <cctype>
#include <utility>

namespace s3sim {

std::string lowercased(std::string text) {
    for (char &character : text) character = static_cast<char>(tolower(character));
    return text;
}

std::string trimmed(const std::string &text) {
    size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return "";
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Digest::Digest() : context(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(static_cast<EVP_MD_CTX *>(context), EVP_md5(), nullptr);
}

Digest::~Digest() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX *>(context)); }

void Digest::add(const void *bytes, size_t count) {
    EVP_DigestUpdate(static_cast<EVP_MD_CTX *>(context), bytes, count);
}

std::string Digest::finish() {
    static const char *digits = "0123456789abcdef";
    std::array<unsigned char, 16> bytes;
    unsigned count = bytes.size();
    EVP_DigestFinal_ex(static_cast<EVP_MD_CTX *>(context), bytes.data(), &count);
    std::string text;
    for (unsigned char byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

// -1 for what is no digit.
static int digitValue(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    digit = static_cast<char>(tolower(digit));
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

std::string fromHex(const std::string &text) {
    std::string bytes;
    for (size_t index = 0; index + 1 < text.size(); index += 2) {
        int high = digitValue(text[index]), low = digitValue(text[index + 1]);
        if (high < 0 || low < 0) break;
        bytes += static_cast<char>(high * 16 + low);
    }
    return bytes;
}

std::string percentDecoded(std::string_view text, bool plusIsBlank) {
    std::string decoded;
    for (size_t index = 0; index < text.size(); index++) {
        if (text[index] == '%' && index + 2 < text.size()) {
            int high = digitValue(text[index + 1]), low = digitValue(text[index + 2]);
            if (high >= 0 && low >= 0) {
                decoded += static_cast<char>(high * 16 + low);
                index += 2;
                continue;
            }
        }
        decoded += text[index] == '+' && plusIsBlank ? ' ' : text[index];
    }
    return decoded;
}

std::string percentEncoded(const std::string &text) {
    static const char *digits = "0123456789ABCDEF";
    std::string encoded;
    for (unsigned char byte : text) {
        if (isalnum(byte) || std::string_view("-_.~/").find(byte) != std::string_view::npos) {
            encoded += static_cast<char>(byte);
        } else {
            encoded += '%';
            encoded += digits[byte >> 4];
            encoded += digits[byte & 15];
        }
    }
    return encoded;
}

std::string xmlEscaped(const std::string &text) {
    std::string escaped;
    for (char character : text) {
        switch (character) {
        case '&': escaped += "&amp;"; break;
        case '<': escaped += "&lt;"; break;
        case '>': escaped += "&gt;"; break;
        case '"': escaped += "&quot;"; break;
        case '\r': escaped += "&#13;"; break;
        default: escaped += character;
        }
    }
    return escaped;
}

static std::string xmlUnescaped(const std::string &text) {
    static const std::pair<std::string_view, char> entities[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'},
    };
    std::string plain;
    for (size_t index = 0; index < text.size();) {
        if (text.compare(index, 2, "&#") == 0) {
            bool isHex = index + 2 < text.size() && tolower(text[index + 2]) == 'x';
            size_t end = text.find(';', index);
            if (end == std::string::npos) break;
            size_t digits = index + (isHex ? 3 : 2);
            long code = strtol(text.c_str() + digits, nullptr, isHex ? 16 : 10);
            // Only control characters are written like this by the clients that are measured.
            plain += static_cast<char>(code);
            index = end + 1;
            continue;
        }
        bool isEntity = false;
        for (const auto &[name, character] : entities) {
            if (text.compare(index, name.size(), name) == 0) {
                plain += character;
                index += name.size();
                isEntity = true;
                break;
            }
        }
        if (!isEntity) plain += text[index++];
    }
    return plain;
}

std::vector<std::string> xmlValues(const std::string &document, const std::string &tag) {
    const std::string open = "<" + tag + ">", close = "</" + tag + ">";
    std::vector<std::string> values;
    for (size_t at = 0; (at = document.find(open, at)) != std::string::npos;) {
        at += open.size();
        size_t end = document.find(close, at);
        if (end == std::string::npos) break;
        values.push_back(xmlUnescaped(document.substr(at, end - at)));
        at = end;
    }
    return values;
}

static std::string formatted(time_t time, const char *format) {
    char text[64];
    struct tm fields;
    gmtime_r(&time, &fields);
    strftime(text, sizeof text, format, &fields);
    return text;
}

std::string httpDate(time_t time) { return formatted(time, "%a, %d %b %Y %H:%M:%S GMT"); }

std::string isoDate(time_t time) { return formatted(time, "%Y-%m-%dT%H:%M:%S.000Z"); }

time_t parsedHTTPDate(const std::string &text) {
    struct tm fields {};
    return strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S", &fields) ? timegm(&fields) : -1;
}

std::string unquotedTag(std::string tag) {
    if (tag.starts_with("W/")) tag.erase(0, 2);
    if (tag.size() > 1 && tag.front() == '"') tag = tag.substr(1, tag.size() - 2);
    return tag;
}

bool tagIsIn(const std::string &list, const std::string &tag) {
    for (size_t begin = 0; begin <= list.size();) {
        size_t end = std::min(list.find(',', begin), list.size());
        std::string each = trimmed(list.substr(begin, end - begin));
        if (each == "*" || unquotedTag(each) == tag) return true;
        begin = end + 1;
    }
    return false;
}

}  // namespace s3sim
