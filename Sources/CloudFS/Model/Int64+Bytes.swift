extension Int64 {
    /// The sum, or the number nearest to it that there is: a cloud may say of a file that it is as
    /// long as numbers go.
    func addingOrMost(_ other: Int64) -> Int64 {
        let (sum, isOver) = addingReportingOverflow(other)
        guard isOver else { return sum }
        return other < 0 ? .min : .max
    }
}
