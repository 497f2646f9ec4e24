/// Types of files that hold a small picture beside what they show.
///
/// - Source: shared-mime-info, the types of `image/x-dcraw`.
enum CameraTypes {
    /// What a sensor saw, which takes long to make a picture of.
    static let raw: Set<String> = [
        "image/x-adobe-dng", "image/x-canon-cr2", "image/x-canon-cr3", "image/x-dcraw",
        "image/x-fuji-raf", "image/x-nikon-nef", "image/x-nikon-nrw", "image/x-panasonic-rw",
        "image/x-panasonic-rw2", "image/x-pentax-pef", "image/x-sony-arw", "image/x-sony-sr2",
        "image/x-sony-srf",
    ]

    static let all: Set<String> = raw.union([
        "image/jpeg", "image/heif", "image/heic", "image/avif",
    ])
}
