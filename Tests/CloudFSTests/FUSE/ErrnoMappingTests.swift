import Glibc
import Testing

@testable import CloudFS

@Suite struct ErrnoMappingTests {
    @Test(arguments: CloudFSError.Code.allCases)
    func `every code has an errno that libfuse passes on`(code: CloudFSError.Code) {
        let number = ErrnoMapping.errno(for: code)
        // libfuse turns anything else into ERANGE; ENOSYS makes the kernel never ask again.
        #expect((1..<1000).contains(number))
        #expect(number != ENOSYS)
    }

    @Test(
        arguments: [
            (.notFound, ENOENT), (.offline, ENETUNREACH), (.timedOut, ETIMEDOUT),
            (.cancelled, EINTR), (.claimed, EBUSY), (.remoteChanged, ESTALE),
            (.noAttribute, ENODATA), (.attributeTooBig, E2BIG), (.attributesFull, ENOSPC),
            (.attributeReadOnly, ENOTSUP), (.unauthenticated, EACCES), (.notPermitted, EPERM),
            (.crossContainer, EXDEV), (.lockHeld, EAGAIN), (.deadlock, EDEADLK),
            (.noData, ENXIO), (.quotaExceeded, EDQUOT), (.corrupt, EIO), (.tooManyOpen, EMFILE),
            (.diskQuotaExceeded, EDQUOT),
        ] as [(CloudFSError.Code, Int32)]
    )
    func `documented codes have their documented errno`(code: CloudFSError.Code, number: Int32) {
        #expect(ErrnoMapping.errno(for: code) == number)
    }

    @Test(arguments: [ENOSPC, EDQUOT, EFBIG, EINTR, EMFILE, EIO])
    func `an errno of a local write reaches the application as it was`(number: Int32) {
        #expect(ErrnoMapping.errno(for: ErrnoMapping.writeError(number).code) == number)
    }
}
