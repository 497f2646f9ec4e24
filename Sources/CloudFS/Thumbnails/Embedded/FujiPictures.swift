/// The JPEG of a raw photo of Fuji, and the small picture in that.
///
/// - Source: "Fuji RAF format" of the ExifTool documentation: its place and length are written at
///   84 and 88, the most significant byte first.
enum FujiPictures {
    static func all(in file: KnownBytes) throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        let start = try file.number(at: 84, bytes: 4)
        let count = try file.number(at: 88, bytes: 4)
        guard start > 0, start <= file.size - count else { throw .nothing }
        let whole = EmbeddedPicture(form: .jpeg, range: start..<start + count, turn: nil)
        return try JPEGPictures.all(in: file, at: start) + [whole]
    }
}
