/// How records of leases are written: their names and their text.
enum LeaseText {
    static let maximumByteCount = 2_048
    private static let title = "cloudfs lease 1"
    private static let digitCount = 15

    // MARK: - Names

    /// What all names of a document's records begin with.
    static func stem(_ document: DocumentID) -> [UInt8] { Array("\(document).".utf8) }

    /// The document and 15 digits, so that names sort by number.
    static func name(_ document: DocumentID, _ number: Int64) -> [UInt8] {
        let digits = String(number)
        let zeros = String(repeating: "0", count: max(0, digitCount - digits.utf8.count))
        return stem(document) + Array((zeros + digits).utf8)
    }

    /// What a name says; `nil` for names of anything else.
    static func parse(_ name: some Collection<UInt8>) -> (document: DocumentID, number: Int64)? {
        guard name.count == 33 + digitCount else { return nil }
        let parts = String(decoding: name, as: UTF8.self).split(
            separator: ".",
            omittingEmptySubsequences: false
        )
        guard parts.count == 2, let document = DocumentID(parts[0]),
            let number = number(of: parts[1]), name.elementsEqual(self.name(document, number))
        else { return nil }
        return (document, number)
    }

    private static func number(of digits: Substring) -> Int64? {
        guard digits.utf8.count == digitCount, let number = Int64(digits),
            (1...LeaseRecord.highestNumber).contains(number)
        else { return nil }
        return number
    }

    // MARK: - Text

    static func bytes(of record: LeaseRecord) -> [UInt8] {
        var lines = [
            title, "generation \(record.generation)",
            "milliseconds \(milliseconds(record.duration))",
            record.isEnded ? "ended" : "held",
        ]
        if let holder = record.holder {
            lines += [
                "instance \(holder.instance)",
                "device \(URIEncoding.encode(holder.device.utf8, keepingSlash: false))",
                "process \(URIEncoding.encode(holder.process.utf8, keepingSlash: false))",
            ]
        }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    /// Reads a record; what is no record's text is one that cannot be read.
    static func record(
        _ bytes: [UInt8],
        of document: DocumentID,
        number: Int64
    ) -> LeaseRecord {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard bytes.count <= maximumByteCount, lines.count == 7, lines[0] == title,
            let generation = value("generation", lines[1]).flatMap({ Int64($0) }),
            let milliseconds = value("milliseconds", lines[2]).flatMap({ Int64($0) }),
            let instance = value("instance", lines[4]).flatMap({ DocumentID($0) }),
            let device = text("device", lines[5]), let process = text("process", lines[6]),
            (1...number).contains(generation), (1...86_400_000).contains(milliseconds),
            lines[3] == "held" || lines[3] == "ended"
        else { return .unreadable(document, number: number) }
        return LeaseRecord(
            document: document,
            number: number,
            generation: generation,
            holder: LeaseHolder(device: device, process: process, instance: instance),
            duration: .milliseconds(milliseconds),
            isEnded: lines[3] == "ended"
        )
    }

    private static func value(_ name: String, _ line: Substring) -> Substring? {
        guard line.hasPrefix("\(name) ") else { return nil }
        return line.dropFirst(name.count + 1)
    }

    private static func text(_ name: String, _ line: Substring) -> String? {
        guard let bytes = value(name, line).flatMap({ URIEncoding.decode($0.utf8) }) else {
            return nil
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1_000
            + duration.components.attoseconds / 1_000_000_000_000_000
    }
}
