// The search for pictures within photos, under libFuzzer; scripts/fuzz compiles this with it.

private let small = [0xff, 0xd8] + [UInt8](repeating: 1, count: 2_000)
private let photo = [0xff, 0xd8, 0xff, 0xdb] + [UInt8](repeating: 2, count: 9_000)

private let photos: [[UInt8]] = [
    CameraFile.jpeg(photo, small: small, orientation: 6),
    CameraFile.nikon(
        pixels: [UInt8](repeating: 3, count: 80 * 60 * 3),
        width: 80,
        full: photo,
        preview: small,
        sensor: small
    ),
    CameraFile.adobe(preview: small, sensor: photo),
    CameraFile.canon(large: photo, small: small, sensor: small),
    CameraFile.panasonic(CameraFile.jpeg(photo, small: small)),
    CameraFile.fuji(CameraFile.jpeg(photo, small: small)),
    CameraFile.canon3(small: small, large: photo, sensor: small),
    CameraFile.heif(picture: photo, thumbnail: small),
]

/// Changes a photo, which the first byte chooses, in places that the others tell.
///
/// Two bytes say where, one what. An input of another choice is a file by itself.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPictures(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    guard let choice = input.first.map(Int.init) else { return 0 }
    var file = Array(input.dropFirst())
    if choice < photos.count {
        file = photos[choice]
        for change in stride(from: 1, to: input.count - 2, by: 3) {
            let place = Int(input[change]) << 8 | Int(input[change + 1])
            file[place % file.count] = input[change + 2]
        }
    }
    for want in [EmbeddedPicture.Want.small, .large] { search(file, for: want) }
    return 0
}

/// Tells the search what it asks for, piece by piece.
private func search(_ file: [UInt8], for want: EmbeddedPicture.Want) {
    var known = KnownBytes(size: Int64(file.count))
    while true {
        do throws(KnownBytes.Stop) {
            let picture = try EmbeddedPicture.search(known, for: want)
            precondition(picture.range.lowerBound >= 0 && picture.range.upperBound <= known.size)
            return
        } catch {
            guard case .lacking(let range) = error else { return }
            precondition(range.lowerBound >= 0 && range.upperBound <= known.size)
            precondition(
                !known.pieces.contains {
                    $0.start <= range.lowerBound
                        && range.upperBound <= $0.end
                }
            )
            known.add(
                Array(file[Int(range.lowerBound)..<Int(range.upperBound)]),
                at: range.lowerBound
            )
        }
    }
}
