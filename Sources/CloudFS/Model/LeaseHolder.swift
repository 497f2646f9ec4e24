/// Who holds a lease, for people: a device, and a program on it.
///
/// What comes from a cloud is somebody else's text: it is cut to a length, and loses whatever
/// could steer a terminal or turn the direction of a line.
public struct LeaseHolder: Hashable, Sendable, CustomStringConvertible {
    /// The device's name, at most 64 bytes.
    public let device: String
    /// The program, such as `soffice (4711)`; at most 128 bytes.
    public let process: String
    /// Random: tells this taking of a lease from every other, also by the same program.
    public let instance: DocumentID

    public init(device: String, process: String, instance: DocumentID = .random()) {
        self.device = Self.plain(device, atMost: 64)
        self.process = Self.plain(process, atMost: 128)
        self.instance = instance
    }

    public var description: String {
        let device = device.isEmpty ? "a device without a name" : device
        return process.isEmpty ? device : "\(process) on \(device)"
    }

    /// The text without what is no sign of its own, cut between two signs.
    private static func plain(_ text: String, atMost limit: Int) -> String {
        var plain = String.UnicodeScalarView()
        var byteCount = 0
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate,
                .unassigned:
                continue
            default: break
            }
            byteCount += UTF8.width(scalar)
            if byteCount > limit { break }
            plain.append(scalar)
        }
        return String(plain)
    }
}
