import Testing

@testable import CloudFS

@Suite struct ProgramRulesTests {
    @Test(arguments: [
        ("tumblerd", ProgramPurpose.thumbnailer), ("evince-thumbnailer", .thumbnailer),
        ("tracker-miner-fs-3", .indexer), ("baloo_file_extractor", .indexer),
        ("updatedb.plocate", .indexer), ("restic", .backup), ("deja-dup", .backup),
        ("cat", .person), ("nautilus", .person), ("cp", .person), ("rsync", .person),
        ("file", .inspector),
    ])
    func `programs are known by their names`(name: String, purpose: ProgramPurpose) {
        #expect(ProgramRules().purpose(of: RunningProgram(name: name)) == purpose)
    }

    @Test func `a program is known by the service that it is part of`() {
        let program = RunningProgram(name: "find", service: "plocate-updatedb")
        #expect(ProgramRules().purpose(of: program) == .indexer)
    }

    @Test func `names of the configuration add to the list, and take out of it`() {
        var rules = ProgramRules(denied: ["my-*"], allowed: ["restic", "my-viewer"])
        func refuses(_ name: String) -> Bool {
            let program = RunningProgram(name: name)
            return rules.refuses(program, for: rules.purpose(of: program))
        }
        #expect(refuses("my-scan"))
        #expect(refuses("tumblerd"))
        #expect(!refuses("my-viewer"))
        #expect(!refuses("restic"))
        #expect(!refuses("cat") && !refuses("file"))
        rules.allowed = ["*"]
        #expect(!refuses("tumblerd"))
    }

    @Test func `each error of the configuration is what programs meet`() {
        for refusal in ProgramRules.Refusal.allCases {
            let numbers = ["EREMOTE": 66, "EACCES": 13, "EAGAIN": 11, "ENETUNREACH": 101]
            #expect(
                ErrnoMapping.errno(for: refusal.code) == numbers[refusal.rawValue].map(Int32.init)
            )
        }
        let wire = MountConfiguration.HydrationError.allCases.map(\.rawValue)
        #expect(wire == ProgramRules.Refusal.allCases.map(\.rawValue))
    }

    @Test func `of many programs the last ones are remembered, with their sums`() {
        let activity = ProgramActivity()
        func program(_ number: Int) -> ReadingPrograms.Program {
            ReadingPrograms.Program(name: "p\(number)", purpose: .person, isRefused: false)
        }
        for number in 0..<1_000 {
            let now = Timestamp(seconds: Int64(number), nanoseconds: 0)
            activity.noteFile(program(number), at: now)
            activity.noteBytes(7, for: program(number), at: now)
            activity.noteRefusal(of: program(number), at: now)
        }
        #expect(activity.all.count == ProgramActivity.capacity)
        let last = activity.all.first
        #expect(last?.name == "p999")
        #expect(last?.counts.files == 1 && last?.counts.bytes == 7)
        #expect(last?.counts.refusedReads == 1)
    }
}
