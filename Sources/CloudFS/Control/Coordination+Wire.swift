import CloudFSControlAPI
import Glibc

extension AccessIntent.Access {
    /// - Throws: `invalidArgument` for options that do not go together.
    init(_ wish: ClaimIntent) throws(CloudFSError) {
        switch wish.access {
        case .read:
            var options = AccessIntent.ReadingOptions()
            for option in wish.options {
                switch option {
                case .withoutChanges: options.insert(.withoutChanges)
                case .immediatelyAvailableMetadataOnly: options.insert(.metadataOnly)
                case .forUploading: options.insert(.forUploading)
                case .forDeleting, .forMoving, .forMerging, .forReplacing,
                    .contentIndependentMetadataOnly:
                    throw Self.misfit(option, "reading")
                }
            }
            self = .reading(options)
        case .write:
            guard wish.options.count <= 1 else {
                throw CloudFSError(.invalidArgument, "one option of writing at most")
            }
            self = .writing(try wish.options.first.map(Self.option) ?? .updating)
        }
    }

    private static func option(
        _ option: ClaimIntent.Option
    ) throws(CloudFSError) -> AccessIntent.WritingOption {
        switch option {
        case .forDeleting: .forDeleting
        case .forMoving: .forMoving
        case .forMerging: .forMerging
        case .forReplacing: .forReplacing
        case .contentIndependentMetadataOnly: .metadataOnly
        case .withoutChanges, .immediatelyAvailableMetadataOnly, .forUploading:
            throw misfit(option, "writing")
        }
    }

    private static func misfit(_ option: ClaimIntent.Option, _ access: String) -> CloudFSError {
        CloudFSError(.invalidArgument, "\(option.rawValue) is no option of \(access)")
    }

    var options: [ClaimIntent.Option] {
        switch self {
        case .reading(let options):
            (options.contains(.withoutChanges) ? [.withoutChanges] : [])
                + (options.contains(.metadataOnly) ? [.immediatelyAvailableMetadataOnly] : [])
                + (options.contains(.forUploading) ? [.forUploading] : [])
        case .writing(.updating): []
        case .writing(.forDeleting): [.forDeleting]
        case .writing(.forMoving): [.forMoving]
        case .writing(.forMerging): [.forMerging]
        case .writing(.forReplacing): [.forReplacing]
        case .writing(.metadataOnly): [.contentIndependentMetadataOnly]
        }
    }
}

extension ClaimStatus.Holder {
    init(_ claimant: Claimant) {
        let isPlain = claimant.purpose == .mount
        let name = claimant.purpose.programName
        self.init(
            kind: name != nil ? .program : isPlain ? .plain : .drive,
            purpose: name ?? "",
            process: claimant.process,
            command: claimant.process > 0 ? ProcessTree.name(of: claimant.process) ?? "" : ""
        )
    }
}

extension PresenterMessage.Kind {
    /// `nil` for what is no message.
    init?(_ kind: PresenterEvent.Kind) {
        self.init(rawValue: kind.rawValue)
    }
}

extension PresenterEvent {
    init(_ message: PresenterMessage, at path: DrivePath?) {
        guard let kind = Kind(rawValue: message.kind.rawValue) else {
            preconditionFailure("a message that has no word: \(message.kind)")
        }
        self.init(id: message.id, kind: kind, path: path, wantsAnswer: message.kind.isQuestion)
    }
}
