/// Conflict versions: what a program may have done about them.
///
/// It is done by renaming and removing files, as any program could: whatever is interrupted leaves
/// fewer versions, and other devices hear of it as of all that happens to files.
extension Filesystem {
    /// What is to become of the versions of a document.
    enum Resolution: Sendable {
        /// The one named is the document, the others are removed.
        case keepThis
        /// Each becomes a document of its own.
        case keepAll

        /// The value of the attribute `resolve`.
        init?(word: String) {
            switch word {
            case "keep-this": self = .keepThis
            case "keep-all": self = .keepAll
            default: return nil
            }
        }
    }

    /// What became of the versions of a document.
    struct Resolved: Sendable {
        /// A name in a folder.
        struct Place: Sendable, Hashable {
            var parent: ItemID
            var name: ItemName
        }

        /// Where the version named is now.
        var kept: Place
        var removed: [Place] = []
        /// Where the others are now.
        var renamed: [Place] = []
    }

    /// Ends the conflict that an item is part of.
    ///
    /// - Parameter known: The versions that whoever decides knows of; `nil` for all there are.
    /// - Throws: `notFound` if it has no name; `remoteChanged` if there is another version by now;
    ///   `claimed` where a coordinated program is in the way; `exists` if something else has the
    ///   document's name; `isDirectory` if a folder would have to go, with all that is in it.
    func resolve(
        _ id: ItemID,
        _ resolution: Resolution,
        knowing known: Set<ItemID>? = nil,
        for caller: Caller
    ) throws(CloudFSError) -> Resolved {
        let (named, document, versions) = try catalog.read { reader in
            guard let named = try reader.name(of: id) else {
                throw CloudFSError(.notFound, "the item has no name any more", item: id)
            }
            let document = try reader.document(of: named) ?? named
            return (named, document, try reader.conflictVersions(of: document))
        }
        if let known, !versions.allSatisfy({ known.contains($0.item) }) {
            throw CloudFSError(.remoteChanged, "there is another version by now: look again")
        }
        let caller = caller.represented
        var resolved = Resolved(kept: try Resolved.Place(document))
        switch resolution {
        case .keepThis:
            for lost in [document] + versions where lost.item != named.item {
                try requireNoFolder(lost)
            }
            if named.item != document.item {
                try put(try Resolved.Place(named), in: resolved.kept, for: caller)
            }
            for version in versions where version.item != named.item {
                let place = try Resolved.Place(version)
                try remove(place, for: caller)
                resolved.removed.append(place)
            }
        case .keepAll:
            for version in versions {
                let place = try makeIndependent(try Resolved.Place(version), for: caller)
                resolved.renamed.append(place)
                if version.item == named.item { resolved.kept = place }
            }
        }
        return resolved
    }

    /// Makes a version the document.
    private func put(
        _ version: Resolved.Place,
        in document: Resolved.Place,
        for caller: Caller
    ) throws(CloudFSError) {
        let kinds = [try shownKind(of: document), try shownKind(of: version)]
        guard kinds.contains(.folder) else {
            return try move(version, to: document, .replacing, for: caller)
        }
        // What looks like a folder and a file do not replace each other.
        try move(version, to: document, .exchange, for: caller)
        try remove(version, for: caller)
    }

    private func shownKind(of place: Resolved.Place) throws(CloudFSError) -> ItemKind? {
        try catalog.read { try $0.child(place.name.bytes, of: place.parent)?.item.shownKind }
    }

    private func requireNoFolder(_ record: NameRecord) throws(CloudFSError) {
        let kind = try catalog.read { try $0.existing(record.item).item.kind }
        guard kind == .folder else { return }
        throw CloudFSError(
            .isDirectory,
            "\(try ItemName(record.name)) is a folder, which is not removed for a version: "
                + "keep all, or remove or rename one of them",
            item: record.item
        )
    }

    /// Removes a version; of a package, all of it.
    private func remove(
        _ place: Resolved.Place,
        for caller: Caller
    ) throws(CloudFSError) {
        if try isPackage(place) {
            try removePackage(place.name, from: place.parent, caller: caller)
        } else {
            try removeFile(place.name, from: place.parent, caller: caller)
        }
    }

    private func isPackage(_ place: Resolved.Place) throws(CloudFSError) -> Bool {
        try catalog.read {
            try $0.child(place.name.bytes, of: place.parent)?.item.isPackage == true
        }
    }

    /// Gives a version a name that is not one of a version.
    private func makeIndependent(
        _ place: Resolved.Place,
        for caller: Caller
    ) throws(CloudFSError) -> Resolved.Place {
        var number = 1
        while true {
            guard let name = ConflictNaming.independent(of: place.name, number: number) else {
                throw CloudFSError(.invalidName, "\(place.name) is no conflict version")
            }
            let free = Resolved.Place(parent: place.parent, name: name)
            do throws(CloudFSError) {
                try move(place, to: free, .noReplace, for: caller)
                return free
            } catch  where error.code == .exists {
                number += 1
            }
        }
    }

    private func move(
        _ place: Resolved.Place,
        to target: Resolved.Place,
        _ mode: RenameMode,
        for caller: Caller
    ) throws(CloudFSError) {
        try rename(
            place.name,
            in: place.parent,
            to: target.name,
            in: target.parent,
            mode: mode,
            caller: caller
        )
    }
}

extension Filesystem.Resolved.Place {
    fileprivate init(_ record: NameRecord) throws(CloudFSError) {
        self.init(parent: record.parent, name: try ItemName(record.name))
    }
}
