import Glibc

/// What a program reads files for, as far as its name tells.
enum ProgramPurpose: String, Sendable, CaseIterable {
    /// Whatever a person does with it.
    case person
    /// Looks at the beginning of a file, to say what it is: the rest is not worth a download.
    case inspector
    /// Looks at every file of a folder, for a small picture of each.
    case thumbnailer
    /// Reads everything there is, to find it again.
    case indexer
    /// Reads everything there is, to keep it elsewhere; the cloud does that already.
    case backup
    /// The owner of the drive named it.
    case named

    /// Whether somebody wants to know something of just this file.
    var isPersons: Bool { self == .person || self == .inspector }
}

/// Which programs read whole drives although nobody wants to see the files, and which of them
/// are refused what is not here.
///
/// Names are patterns of `fnmatch`, for the file name of a program or the systemd service that it
/// belongs to.
struct ProgramRules: Sendable, Equatable {
    /// Names beside the built-in ones.
    var denied: [String] = []
    /// Names that get what they read, whatever else says.
    var allowed: [String] = []
    /// Which of the errors a refused program meets.
    var refusal = Refusal.remote

    /// What a refused read fails with.
    enum Refusal: String, Sendable, CaseIterable {
        /// "Object is remote": what it is, and no program takes it for anything else.
        case remote = "EREMOTE"
        case denied = "EACCES"
        case again = "EAGAIN"
        case offline = "ENETUNREACH"

        var code: CloudFSError.Code {
            switch self {
            case .remote: .absent
            case .denied: .denied
            case .again: .lockHeld
            case .offline: .offline
            }
        }
    }

    func purpose(of program: RunningProgram) -> ProgramPurpose {
        if matches(denied, program) { return .named }
        for (purpose, names) in Self.known where matches(names, program) { return purpose }
        return .person
    }

    /// Whether a program gets only what is here.
    func refuses(_ program: RunningProgram, for purpose: ProgramPurpose) -> Bool {
        !purpose.isPersons && !matches(allowed, program)
    }

    private func matches(_ patterns: [String], _ program: RunningProgram) -> Bool {
        patterns.contains { pattern in
            if fnmatch(pattern, program.name, 0) == 0 { return true }
            return program.service.map { fnmatch(pattern, $0, 0) == 0 } ?? false
        }
    }

    /// Programs of Debian and its like; a service has the name of what it runs, or `…-updatedb`.
    static let known: [(ProgramPurpose, [String])] = [
        (.inspector, ["file", "mimetype", "mediainfo", "exiftool", "ffprobe"]),
        (
            .thumbnailer,
            [
                "tumblerd", "*-thumbnailer", "ffmpegthumbnailer", "*-thumbnailer-*", "thumbnail.so",
                "kioworker-thumbnail", "gdk-pixbuf-thumbnail*", "gsf-office-thumbnail*",
                "totem-video-thumbnail*", "mate-thumbnail-font", "gnome-thumbnail-font",
            ]
        ),
        (
            .indexer,
            [
                "tracker-miner-fs*", "tracker-extract*", "tracker-miner-rss*", "localsearch*",
                "baloo_file", "baloo_file_extractor", "baloo_file_*", "kde-baloo*", "recoll",
                "recollindex", "updatedb", "updatedb.*", "*-updatedb", "mlocate", "plocate-build",
                "zeitgeist-fts", "beagled",
            ]
        ),
        (
            .backup,
            [
                "restic", "borg", "borgmatic", "deja-dup*", "duplicity", "duplicati*", "rsnapshot",
                "kopia", "bup", "bupstash", "rdiff-backup", "tarsnap", "backintime*", "timeshift",
                "burp", "bareos-fd", "bacula-fd", "urbackupclientbackend", "obnam", "amdump",
            ]
        ),
    ]
}
