extension Filesystem {
    /// Stops what nobody waits for: uploads, and downloads other than of what is read.
    ///
    /// May block on the disk.
    ///
    /// - Parameter moment: When the pause began; `nil` if it is over.
    func setPaused(since moment: Timestamp?) {
        connection.setPaused(since: moment)
        uploader.noticePause()
        downloader.noticePause()
        guard moment == nil else { return }
        siblings.noticeResumed()
        hydrator.goOn()
    }
}
