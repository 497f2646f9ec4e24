/// Names of the files by which office programs tell each other who has a document open:
/// `.~lock.NAME#` of LibreOffice, `~$NAME` of Microsoft Office, which calls them owner files.
enum OwnerFileName {
    static func matches(_ name: [UInt8]) -> Bool {
        isLock(name) || (name.count > 2 && name.starts(with: "~$".utf8))
    }

    private static func isLock(_ name: [UInt8]) -> Bool {
        let beginning = Array(".~lock.".utf8)
        return name.count > beginning.count + 1 && name.starts(with: beginning)
            && name.last == UInt8(ascii: "#")
    }
}
