import CloudFSControlAPI

extension DriveControl {
    func check(_ request: CheckRequest) async throws(CloudFSError) -> CheckPage {
        guard let position = Checker.Position(request.after ?? "catalog") else {
            throw CloudFSError(.invalidArgument, "after is not what this drive gave")
        }
        let checker = Checker(
            feed: filesystem.feed,
            hydrator: filesystem.hydrator,
            uploader: filesystem.uploader
        )
        let page = try await checker.page(
            from: position,
            Checker.Options(repairs: request.repair, isQuick: request.quick)
        )
        return try await pool.engine {
            try self.catalog.read { reader in
                CheckPage(
                    findings: try page.findings.map { try self.finding($0, reader) },
                    checked: page.checked,
                    inUse: page.inUse,
                    shown: try page.items.compactMap { try self.shown($0.id, reader) },
                    next: page.next?.description
                )
            }
        }
    }

    private func finding(
        _ finding: Violation,
        _ reader: CatalogReader
    ) throws -> CheckPage.Finding {
        CheckPage.Finding(
            invariant: finding.invariant.rawValue,
            path: try finding.item.flatMap { try path(of: $0, reader) },
            text: finding.text,
            repaired: finding.isRepaired
        )
    }

    private func shown(_ id: ItemID, _ reader: CatalogReader) throws -> CheckPage.Shown? {
        guard let record = try reader.item(id), let names = try reader.path(of: id),
            let path = DrivePath(names: names)
        else { return nil }
        let isStill = record.item.shownKind == .file && filesystem.files.live(id) == nil
        return CheckPage.Shown(
            path: path,
            inode: id.rawValue,
            kind: ItemStatus.Kind(record.item.shownKind),
            size: isStill ? record.item.size : nil
        )
    }
}
