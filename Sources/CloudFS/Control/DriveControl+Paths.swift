import CloudFSControlAPI

/// From paths to items. A folder that was never listed may hold anything: what is not known in it
/// is not absent.
extension DriveControl {
    /// The item at a path.
    ///
    /// - Throws: `notFound`; `offline` where the folder that it would be in is not listed yet.
    func find(
        _ path: DrivePath,
        _ reader: CatalogReader
    ) throws(CloudFSError) -> ItemRecord {
        do {
            if let record = try reader.item(at: path.names) { return record }
            throw try absence(of: path, reader)
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.internalFailure, "the catalog cannot be read", cause: error)
        }
    }

    /// Why an item is not found.
    func absence(of path: DrivePath, _ reader: CatalogReader) throws -> CloudFSError {
        try Self.unlistedFolder(on: path, reader) == nil
            ? CloudFSError(.notFound, "\(path) does not exist")
            : CloudFSError(.offline, "\(path) is not known yet: its folder could not be listed")
    }

    /// Has the folders on the way to `paths` listed, as looking for them in the drive does.
    ///
    /// One that cannot be listed, or not in time for all of them, is told when the item is looked
    /// for.
    ///
    /// - Parameter isFetching: Whether packages on the way are fetched, as for a read.
    func reach(_ paths: [DrivePath], isFetching: Bool = false) async {
        let end = filesystem.clocks.elapsed() + filesystem.options.listingDeadline
        for path in paths where filesystem.clocks.elapsed() < end {
            for _ in path.names {
                do throws(CloudFSError) {
                    let next = try await pool.engine {
                        try self.catalog.read { reader in
                            let next = try Self.unlistedFolder(on: path, reader)
                            let isPackage = try next.map { try reader.existing($0).item.isPackage }
                            return isPackage == true && !isFetching ? nil : next
                        }
                    }
                    guard let next else { break }
                    try await filesystem.ensureListed(
                        next,
                        within: filesystem.options.lookupDeadline
                    )
                } catch {
                    filesystem.logger.debug(
                        "a folder on the way could not be listed",
                        metadata: ["path": "\(path)", "error": "\(error)"]
                    )
                    // The others would be waited for as long, one after the other.
                    return
                }
            }
        }
    }

    /// The folder on the way to a path that may hold the rest of it, for all that is known.
    private static func unlistedFolder(
        on path: DrivePath,
        _ reader: CatalogReader
    ) throws -> ItemID? {
        var folder = ItemID.root
        for name in path.names {
            guard let child = try reader.child(name, of: folder) else {
                let record = try reader.item(folder)
                return record?.item.isFolder == true && record?.isListed == false ? folder : nil
            }
            folder = child.id
        }
        return nil
    }
}
