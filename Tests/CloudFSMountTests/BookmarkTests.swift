import CloudFSTestSupport
import Testing

/// Tokens that lead to documents wherever they are moved.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct BookmarkTests {
    private func create(_ name: String, on drive: TestDrive) async throws -> String {
        let said = try await drive.mustDo(["bookmark", "create", name])
        return said.trimmingCharacters
    }

    private func resolve(
        _ token: String,
        on drive: TestDrive
    ) async throws -> (path: String, isStale: Bool, token: String) {
        let said = try await drive.mustDo(["bookmark", "resolve", "--json", token])
        let node = try JSONNode(said)
        return (
            node["path"]?.string ?? "", node["status"]?["isStale"] == .flag(true),
            node["status"]?["token"]?.string ?? ""
        )
    }

    @Test func `it finds a document wherever it was moved, and is renewed then`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("docs/plan.txt", "plan")
                try cloud.write("other.txt", "other")
            }
        ) { drive in
            let token = try await create("docs/plan.txt", on: drive)
            #expect(token.hasPrefix("cfb1."))
            var found = try await resolve(token, on: drive)
            #expect(found.path == "\(drive.path)/docs/plan.txt")
            #expect(!found.isStale && found.token == token)
            try await drive.run("mv docs/plan.txt moved.txt; mkdir box; mv moved.txt box/")
            found = try await resolve(token, on: drive)
            #expect(found.path == "\(drive.path)/box/moved.txt" && found.isStale)
            #expect(found.token != token)
            let renewed = found.token
            #expect(try await !resolve(renewed, on: drive).isStale)
            try await drive.drain()
            // However it is saved, it stays the document.
            try await drive.run("echo new > .tmp && mv .tmp box/moved.txt")
            #expect(try await !resolve(renewed, on: drive).isStale)
            try await drive.drain()
            try drive.cloud.rename("box/moved.txt", to: "elsewhere")
            try await eventually("it was moved by another tool") {
                // Between its going and its coming it is nowhere.
                try await drive.cloudfs(["bookmark", "resolve", renewed]).output
                    == "\(drive.path)/elsewhere\n"
            }
            let again = try await drive.restart()
            #expect(try await resolve(renewed, on: again).path == "\(drive.path)/elsewhere")
            let plain = try await again.cloudfs(["bookmark", "resolve", renewed])
            #expect(plain.output == "\(drive.path)/elsewhere\n")
            #expect(plain.errors.contains("keep this bookmark instead: cfb1."))
        }
    }

    @Test func `it finds what was moved while the drive was not mounted`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("docs/plan.txt", "plan") }) {
            drive in
            let token = try await create("docs/plan.txt", on: drive)
            try await drive.mount.stop()
            try drive.cloud.makeFolder("box")
            try drive.cloud.rename("docs/plan.txt", to: "box/renamed.txt")
            try await drive.mount.start()
            try await eventually("it is found", within: .seconds(20)) {
                let found = try await drive.cloudfs(["bookmark", "resolve", token])
                return found.output == "\(drive.path)/box/renamed.txt\n"
            }
        }
    }

    @Test func `it follows what another device does, and is good there`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("plan.txt", "plan") }) { drive in
            try await drive.run("echo made here > new.txt")
            try await drive.drain()
            let tokens = [
                try await create("plan.txt", on: drive), try await create("new.txt", on: drive),
            ]
            try await drive.withSecondDrive { second in
                try await eventually("both are there") {
                    try await second.has(["plan.txt", "new.txt"])
                }
                try await second.run("mkdir sub; mv plan.txt sub/a; mv new.txt sub/b")
                try await second.drain()
                for (token, name) in zip(tokens, ["sub/a", "sub/b"]) {
                    try await eventually("the drive follows") {
                        try await drive.cloudfs(["bookmark", "resolve", token]).output
                            .hasSuffix("/" + name + "\n")
                    }
                }
            }
        }
    }

    /// What is said of a bookmark whose document is gone, once nothing is being listed.
    private static func replaced(
        _ token: String,
        on drive: TestDrive
    ) async throws -> Shell.Result {
        var found = try await drive.cloudfs(["bookmark", "resolve", token])
        try await eventually("what has its path is found: \(found.errors)") {
            if found.status == 0 { return true }
            found = try await drive.cloudfs(["bookmark", "resolve", token])
            return found.status == 0
        }
        return found
    }

    @Test func `what has the path of a document is not taken while that may be elsewhere`()
        async throws
    {
        try await TestDrive.with(
            ending: .killed,
            prepare: Filling { try $0.write("plan.txt", "plan") }
        ) { drive in
            let token = try await create("plan.txt", on: drive)
            try await drive.run("rm plan.txt")
            try await drive.drain()
            try await drive.run("echo another > plan.txt")
            try await drive.drain()
            #expect(try await Self.replaced(token, on: drive).errors.contains("has its path now"))
            // Nothing was compared yet: another device may have brought the document back.
            let hanging = try await drive.restart(TestMount.Options.hanging)
            let unknown = try await hanging.cloudfs(["bookmark", "resolve", token])
            #expect(unknown.status == 1 && unknown.output.isEmpty, "\(unknown)")
            #expect(unknown.errors.contains("not known now"), "\(unknown)")
        }
    }

    @Test func `nobody else can make one, and what leads nowhere says why`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("plan.txt", "plan") }) { drive in
            let token = try await create("plan.txt", on: drive)
            func refusal(_ token: String) async throws -> String {
                let result = try await drive.cloudfs(["bookmark", "resolve", token])
                #expect(result.status == 1 && result.output.isEmpty)
                return result.errors
            }
            let changed =
                token.prefix(35) + (token.dropFirst(35).first == "A" ? "B" : "A")
                + token.dropFirst(36)
            #expect(try await refusal(String(changed)).contains("was not made by this user"))
            #expect(try await refusal("cfb1.nonsense").contains("no bookmark"))
            #expect(try await !refusal(String(token.dropLast())).isEmpty)
            // Removed and written anew at once it would be the same document still.
            try await drive.run("rm plan.txt")
            try await drive.drain()
            #expect(try await refusal(token).contains("gone"))
            try await drive.run("echo another > plan.txt")
            let found = try await Self.replaced(token, on: drive)
            #expect(found.output == "\(drive.path)/plan.txt\n")
            #expect(found.errors.contains("this is what has its path now"))
            let missing = try await drive.cloudfs(["bookmark", "create", "nothing"])
            #expect(missing.status == 1 && missing.errors.contains("does not exist"))
            try await drive.mount.stop()
            let away = try await drive.cloudfs(["bookmark", "resolve", token])
            #expect(away.status == 1 && away.errors.contains("mount local:\(drive.cloud.path)"))
            _ = try await drive.again()
        }
    }
}

extension String {
    fileprivate var trimmingCharacters: String { hasSuffix("\n") ? String(dropLast()) : self }
}
