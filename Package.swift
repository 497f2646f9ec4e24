// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "CloudFS",
    products: [
        .library(name: "CloudFS", targets: ["CloudFS"]),
        .library(name: "CloudFSClient", targets: ["CloudFSClient"]),
        .executable(name: "cloudfs", targets: ["cloudfs"]),
        .executable(name: "cloudfs-mount", targets: ["cloudfs-mount"]),
        .executable(name: "cloudfs-notes", targets: ["cloudfs-notes"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CFuse",
            pkgConfig: "fuse3",
            providers: [.apt(["libfuse3-dev"])]
        ),
        .systemLibrary(
            name: "CExpat",
            pkgConfig: "expat",
            providers: [.apt(["libexpat1-dev"])]
        ),
        .systemLibrary(
            name: "CArchive",
            pkgConfig: "libarchive",
            providers: [.apt(["libarchive-dev"])]
        ),
        .target(name: "CSQLite", linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(
            name: "CloudFS",
            dependencies: [
                "CArchive",
                "CExpat",
                "CFuse",
                "CLinux",
                "CSQLite",
                "CloudFSControlAPI",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Collections", package: "swift-collections"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "TOMLKit", package: "TOMLKit"),
            ]
        ),
        .target(name: "CLinux"),
        .target(name: "CloudFSControlAPI"),
        .target(
            name: "CloudFSClient",
            dependencies: [
                "CLinux",
                "CloudFSControlAPI",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOFoundationCompat", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),
        .executableTarget(
            name: "cloudfs",
            dependencies: [
                "CLinux",
                "CloudFSClient",
                "CloudFSControlAPI",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(
            name: "cloudfs-notes",
            dependencies: ["CloudFSClient"],
            path: "Examples/Notes"
        ),
        .executableTarget(
            name: "cloudfs-mount",
            dependencies: [
                "CLinux",
                "CloudFS",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .target(
            name: "CloudFSTestSupport",
            dependencies: [
                "CloudFS",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            path: "Tests/CloudFSTestSupport"
        ),
        .testTarget(
            name: "CloudFSTests",
            dependencies: [
                "CloudFS",
                "CloudFSClient",
                "CloudFSControlAPI",
                "CloudFSTestSupport",
                "cloudfs",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        .testTarget(
            name: "CloudFSMountTests",
            dependencies: [
                "CloudFSTestSupport", "cloudfs", "cloudfs-mount", "cloudfs-notes",
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

// A program of its own, for it takes the clocks, the executor and chance away from everything in
// its process. Only `scripts/simulate` builds it: a release needs a flag to be looked into.
if Context.environment["CLOUDFS_SIMULATION"] != nil {
    package.targets += [
        .target(name: "CSimulation", path: "Tests/CSimulation"),
        .executableTarget(
            name: "cloudfs-simulation",
            dependencies: [
                "CSimulation",
                "CloudFS",
                "CloudFSTestSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/Simulation"
        ),
    ]
}

for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ]
    // Where SwiftNIO is imported, its C modules take over `struct stat` and its like, and members of
    // Glibc's types would have to be imported from them (docs/decisions/0004). Synchronization does
    // the same to `struct timespec`.
    let takesOver = [
        "CloudFS", "CloudFSTestSupport", "CloudFSTests", "CloudFSMountTests", "cloudfs-mount",
        "cloudfs-simulation",
    ]
    if !takesOver.contains(target.name) {
        target.swiftSettings?.append(.enableUpcomingFeature("MemberImportVisibility"))
    }
}

// The thread sanitizer does not see the standard library's locks; `scripts/sanitize` sets this.
if Context.environment["CLOUDFS_SEEN_LOCKS"] != nil {
    let locking = [
        "CloudFS", "CloudFSClient", "cloudfs-mount", "CloudFSTestSupport", "CloudFSTests",
        "CloudFSMountTests",
    ]
    for target in package.targets where locking.contains(target.name) {
        target.swiftSettings = (target.swiftSettings ?? []) + [.define("CLOUDFS_SEEN_LOCKS")]
    }
}
