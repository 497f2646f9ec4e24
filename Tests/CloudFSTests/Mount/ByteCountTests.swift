import Testing

@testable import CloudFS

@Suite struct ByteCountTests {
    @Test(
        arguments: [
            ("0", 0), ("4096", 4096), ("12b", 12), ("1k", 1024), ("1KiB", 1024), ("1KB", 1000),
            ("10G", 10_737_418_240), ("10GiB", 10_737_418_240), ("500MB", 500_000_000),
            ("1.5G", 1_610_612_736), ("0.5k", 512), ("2.25MB", 2_250_000),
            ("3tib", 3_298_534_883_328),
            ("1P", 1_125_899_906_842_624),
        ] as [(String, Int64)]
    )
    func `sizes are read as people write them`(text: String, byteCount: Int64) {
        #expect(ByteCount.parse(text) == byteCount)
    }

    @Test(arguments: [
        "", "G", "-1", "1.5", "1.", ".5G", "1.2.3G", "10X", "10GG", "10GiBs", "1 G", "1e3",
        "9223372036854775808", "8192P", "٣", "0x10", "1.1234567G",
    ])
    func `what is no size is refused`(text: String) {
        #expect(ByteCount.parse(text) == nil)
    }

    @Test func `rates may say per second`() {
        #expect(ByteCount.parseRate("50MB/s") == 50_000_000)
        #expect(ByteCount.parseRate("50MB") == 50_000_000)
        #expect(ByteCount.parseRate("50MB/m") == nil)
        #expect(ByteCount.parse("50MB/s") == nil)
    }

    @Test(arguments: [0, 1, 1023, 1024, 1000, 5_000_000, 5 << 20, 7 << 40, 123_456_789, .max])
    func `what is written is read back as the same number`(byteCount: Int64) {
        #expect(ByteCount.parse(ByteCount.format(byteCount)) == byteCount)
    }
}
