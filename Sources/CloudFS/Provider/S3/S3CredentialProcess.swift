import Foundation

/// A program of the user's that prints credentials, run without a shell and within bounds.
///
/// - Source: AWS SDKs and Tools Reference Guide, "Process credential provider"
struct S3CredentialProcess: Sendable {
    /// As it stands in the profile: words, some of them quoted.
    var command: String
    /// For sentences.
    var profile: String
    var environment: [String: String]
    /// How long it may take; then it is killed with all it started.
    var limit: Duration = .seconds(30)

    /// Runs the program and understands what it prints; blocks as long as it runs.
    ///
    /// - Throws: `unauthenticated`; `timedOut`; `invalidArgument` for a command that is no words.
    func credentials() throws(CloudFSError) -> S3Credentials {
        guard let words = Self.words(command), !words.isEmpty else {
            throw failure(.invalidArgument, "is no command: a quotation mark is not closed")
        }
        let output = try run(words)
        let answer: ProcessOutput
        do {
            answer = try JSONDecoder().decode(ProcessOutput.self, from: Data(output))
        } catch {
            // The error is not passed on: it may show what was printed.
            throw failure(.unauthenticated, "printed no credentials as JSON")
        }
        guard answer.version == 1 else {
            throw failure(.unauthenticated, "printed credentials of an unknown version")
        }
        var expiration: Timestamp?
        if let text = answer.expiration {
            expiration = S3Time.iso8601(text)
            if expiration == nil { throw failure(.unauthenticated, "printed no valid Expiration") }
        }
        guard
            let credentials = try S3Credentials(
                accessKeyID: answer.accessKeyID,
                secretAccessKey: answer.secretAccessKey,
                sessionToken: answer.sessionToken,
                expiration: expiration,
                source: "what credential_process of the profile \(profile) printed"
            )
        else { throw failure(.unauthenticated, "printed no credentials") }
        return credentials
    }

    private struct ProcessOutput: Decodable {
        enum CodingKeys: String, CodingKey {
            case version = "Version"
            case accessKeyID = "AccessKeyId"
            case secretAccessKey = "SecretAccessKey"
            case sessionToken = "SessionToken"
            case expiration = "Expiration"
        }

        var version: Int
        var accessKeyID: String?
        var secretAccessKey: String?
        var sessionToken: String?
        var expiration: String?
    }

    private func failure(_ code: CloudFSError.Code, _ what: String) -> CloudFSError {
        CloudFSError(code, "credential_process of the profile \(profile) \(what)")
    }

    // MARK: - The command

    /// The words of a command as a shell would see them, with nothing expanded.
    ///
    /// - Returns: `nil` when a quotation mark is not closed.
    static func words(_ command: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var characters = command.makeIterator()
        while let character = characters.next() {
            if character == "\\", quote != "'" {
                guard let next = characters.next() else { return nil }
                let isKept = quote == "\"" && next != "\"" && next != "\\"
                word = (word ?? "") + (isKept ? "\\" : "") + String(next)
            } else if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if quote == nil, character.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        if let word { words.append(word) }
        return quote == nil ? words : nil
    }

    // MARK: - The child

    private func run(_ words: [String]) throws(CloudFSError) -> [UInt8] {
        do throws(ChildRun.Failure) {
            return try ChildRun(words: words, environment: environment, limit: limit).output()
        } catch {
            switch error {
            case .noPipe: throw failure(.tooManyOpen, "gets no pipe")
            case .notStarted(let reason):
                throw failure(.unauthenticated, "cannot be run: \(reason)")
            case .tookTooLong:
                throw failure(.timedOut, "printed no end within \(limit), or too much")
            case .ended: throw failure(.unauthenticated, "failed; run it by hand to see why")
            }
        }
    }
}
