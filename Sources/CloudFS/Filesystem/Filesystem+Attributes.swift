import Glibc

extension Filesystem {
    func attribute(_ name: String, of id: ItemID) throws(CloudFSError) -> [UInt8] {
        guard name.hasPrefix("user.") else {
            // Asked before every write, and by `ls -l` until it hears that there are none.
            throw CloudFSError(.unsupported, "only attributes named user.… are stored", item: id)
        }
        guard !id.isVirtual else {
            throw CloudFSError(.noAttribute, "no attribute \(name)", item: id)
        }
        if AttributeName.isReserved(name) {
            return try ownAttribute(name, of: id)
        }
        guard let value = try catalog.readFew({ try $0.attribute(name, of: id) }) else {
            throw CloudFSError(.noAttribute, "no attribute \(name)", item: id)
        }
        return value
    }

    /// One that CloudFS answers itself, without the network.
    private func ownAttribute(_ name: String, of id: ItemID) throws(CloudFSError) -> [UInt8] {
        let known = AttributeName(name)
        if let size = known?.pictureSide.flatMap({ ThumbnailSize(rawValue: $0) }) {
            return try thumbnails.image(of: id, atMost: size).bytes
        }
        guard let known, let value = try value(of: known, id) else {
            throw CloudFSError(.noAttribute, "no attribute \(name)", item: id)
        }
        return Array(value.utf8)
    }

    private func value(of name: AttributeName, _ id: ItemID) throws(CloudFSError) -> String? {
        if name == .thumbnailPath { return try desktop?.path(of: id) }
        guard name == .conflicts else {
            var facts = try facts(of: id)
            if name.tellsType { lookInto(&facts) }
            return name.value(for: facts)
        }
        let versions = try catalog.readFew { reader in
            try reader.name(of: id).map { try reader.conflictVersions(of: $0) } ?? []
        }
        let names = versions.map { String(decoding: $0.name, as: UTF8.self) }
        return "[" + names.map(AttributeDocument.quoted).joined(separator: ",") + "]"
    }

    func attributeNames(of id: ItemID) throws(CloudFSError) -> [String] {
        guard !id.isVirtual else { return [] }
        // A copy of a favorite is none.
        return try catalog.readFew { reader in
            try reader.attributes(of: id).keys.filter { !AttributeName.isReserved($0) }.sorted()
        }
    }

    func setAttribute(
        _ name: String,
        to value: [UInt8],
        of id: ItemID,
        flags: Int32,
        caller: Caller
    ) throws(CloudFSError) {
        try requireNotVirtual(id)
        if AttributeName.isReserved(name) { return try trigger(name, value, id, caller) }
        try requireWritable()
        guard RemoteAttribute.isApplications(name) else { throw Self.notStored(id) }
        guard value.count <= AttributeLimits.longestValue else {
            throw CloudFSError(.attributeTooBig, "the value is longer than 64 KiB", item: id)
        }
        try changeAttributes(of: id, for: caller) { writer in
            let attributes = try writer.reader.attributes(of: id)
            let isThere = try writer.reader.attribute(name, of: id) != nil
            if flags & 1 != 0, isThere {
                throw CloudFSError(.exists, "the attribute exists already", item: id)
            }
            if flags & 2 != 0, !isThere {
                throw CloudFSError(.noAttribute, "no attribute \(name)", item: id)
            }
            guard isThere || attributes[name] == nil else {
                throw CloudFSError(
                    .invalidName,
                    "another attribute's name differs by its Unicode normal form only",
                    item: id
                )
            }
            var changed = attributes
            changed[name] = value
            guard AttributeLimits.allow(changed) else {
                throw CloudFSError(.attributesFull, "the item has too many attributes", item: id)
            }
            try writer.noteEditing(name, of: id)
            try writer.setAttribute(name, to: value, of: id)
        }
    }

    /// Notes that a person wants to find the item again, or no longer.
    private func setFavorite(
        _ isFavorite: Bool,
        _ id: ItemID,
        for caller: Caller
    ) throws(CloudFSError) {
        try requireWritable()
        try changeAttributes(of: id, for: caller) { writer in
            let name = RemoteAttribute.favorite
            try writer.noteEditing(name, of: id)
            if isFavorite {
                try writer.setAttribute(name, to: Array("1".utf8), of: id)
            } else {
                try writer.removeAttribute(name, of: id)
            }
        }
    }

    func removeAttribute(_ name: String, of id: ItemID, caller: Caller) throws(CloudFSError) {
        try requireNotVirtual(id)
        if AttributeName.isReserved(name) {
            switch AttributeName(name) {
            case .pin: return try setPolicy(.inherited, of: id)
            case .thumbnail:
                try requireWritable()
                return try thumbnails.reset(id)
            case .favorite: return try setFavorite(false, id, for: caller)
            default:
                throw CloudFSError(.attributeReadOnly, "\(name) cannot be removed", item: id)
            }
        }
        try requireWritable()
        // Whatever an earlier version stored can be removed.
        guard name.hasPrefix("user.") else { throw Self.notStored(id) }
        try changeAttributes(of: id, for: caller) { writer in
            guard try writer.reader.attribute(name, of: id) != nil else {
                throw CloudFSError(.noAttribute, "no attribute \(name)", item: id)
            }
            try writer.noteEditing(name, of: id)
            try writer.removeAttribute(name, of: id)
        }
    }

    private static func notStored(_ id: ItemID) -> CloudFSError {
        CloudFSError(
            .attributeReadOnly,
            "only attributes named user.… are stored, and none that a cloud keeps for CloudFS",
            item: id
        )
    }

    private func changeAttributes(
        of id: ItemID,
        for caller: Caller,
        _ change: (CatalogWriter) throws -> Void
    ) throws(CloudFSError) {
        let request = caller.request
        guard try !isDone(request, to: id) else { return }
        let claim = try claimNow([.writing(id, .metadataOnly)], for: caller)
        defer { claim.end() }
        let notBefore = notBefore
        let now = clocks.now()
        try catalog.write { writer in
            let record = try writer.reader.existing(id)
            try change(writer)
            try writer.touch(id, at: now, by: request)
            if record.item.kind.isSynced, id != .root {
                try writer.markMetadataChanged(id, [], notBefore: notBefore)
            }
        }
        publish([.attributes(id)], by: caller)
    }

    // MARK: - Attributes that do something

    private func trigger(
        _ name: String,
        _ value: [UInt8],
        _ id: ItemID,
        _ caller: Caller
    ) throws(CloudFSError) {
        let word = String(decoding: value, as: UTF8.self).trimmingSuffix("\n")
        switch AttributeName(name) {
        case .pin:
            guard let policy = ContentPolicy(word: word) else {
                throw CloudFSError(
                    .invalidArgument,
                    "pin is one of inherit, on-demand, pinned, excluded",
                    item: id
                )
            }
            try setPolicy(policy, of: id)
        case .thumbnail:
            try requireWritable()
            try thumbnails.set(value, for: id)
        case .favorite:
            switch word {
            case "1", "yes", "true": try setFavorite(true, id, for: caller)
            case "0", "no", "false": try setFavorite(false, id, for: caller)
            default:
                throw CloudFSError(.invalidArgument, "favorite is 1 or 0", item: id)
            }
        case .hydrate: _ = try download(id)
        case .evict: try evictOne(id)
        case .resolve:
            try requireWritable()
            // The kernel has checked that the file may be written, not its folder.
            guard caller.userID == geteuid() || caller.userID == 0 else {
                throw CloudFSError(
                    .notPermitted,
                    "only root and the user who mounted may resolve a conflict so",
                    item: id
                )
            }
            guard let resolution = Resolution(word: word) else {
                throw CloudFSError(
                    .invalidArgument,
                    "resolve is one of keep-this, keep-all",
                    item: id
                )
            }
            _ = try resolve(id, resolution, for: caller)
        default:
            throw CloudFSError(.attributeReadOnly, "\(name) cannot be written", item: id)
        }
    }

    private func evictOne(_ id: ItemID) throws(CloudFSError) {
        let record = try catalog.read { try $0.existing(id) }
        guard record.item.kind == .folder else { return try evictor.evict(id) }
        for below in try catalog.read({ try $0.localFiles(below: id) }) {
            do throws(CloudFSError) {
                try evictor.evict(below)
            } catch  where error.code == .claimed || error.code == .exists || error.code == .denied
            {
                // Of a folder what can go goes; the command reports what stays and why.
                continue
            }
        }
    }

    /// Sets what is asked of an item; what is pinned begins to download.
    ///
    /// What a death cuts off is done at the next start.
    func setPolicy(_ policy: ContentPolicy, of id: ItemID) throws(CloudFSError) {
        let notBefore = notBefore
        try catalog.write(isLong: true) { writer in
            let wasExcluded = try writer.reader.effectivePolicy(of: id) == .excluded
            try writer.setPolicy(policy, of: id)
            try writer.note(id, isToFollow: true)
            if wasExcluded, policy != .excluded {
                try writer.enqueueChangedBelow(id, notBefore: notBefore)
            }
        }
        hub.publish([.attributes(id)], by: .daemon(askedBy: getpid()))
        try catalog.followPolicy(of: id)
        downloader.noticeWanted()
        evictor.noticeAll()
        virtual.noteChanged()
    }

    /// Begins to bring a file, or all files below a folder, here.
    ///
    /// - Returns: How many files are to come.
    /// - Throws: `diskFull` for more than may ever be here: what comes last would take the place of
    ///   what came first.
    func download(_ id: ItemID) throws(CloudFSError) -> Int {
        let (files, missing, isPinned) = try catalog.read { reader in
            let found = try reader.incompleteFiles(below: id)
            return (found.files, found.missing, try reader.effectivePolicy(of: id) == .pinned)
        }
        let most = evictor.limits.cacheSize
        // What is pinned never makes room.
        guard isPinned || missing <= most else {
            throw CloudFSError(
                .diskFull,
                "it lacks \(Evictor.mebibytes(missing)) MiB, "
                    + "and cache-size allows \(Evictor.mebibytes(most)) MiB of all files",
                item: id
            )
        }
        try catalog.writeInSteps(files) { try $0.want($1) }
        downloader.noticeWanted()
        return files.count
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
