extension Filesystem {
    /// How the query that a text means is answered here; `docs/query.md` has the language.
    ///
    /// - Parameter bounds: What must hold besides.
    /// - Throws: `invalidArgument`, with where the text is wrong.
    func plan(
        for text: String,
        within bounds: [QueryCondition] = []
    ) throws(CloudFSError) -> QueryPlan {
        let surroundings = QueryParser.Surroundings(
            now: clocks.now(),
            isType: { [contentTypes] in contentTypes.isName($0) }
        )
        var query: Query
        do throws(QuerySyntaxError) {
            query = try QueryParser.parse(text, in: surroundings)
        } catch {
            throw error.failure
        }
        if !bounds.isEmpty { query.condition = .all([query.condition] + bounds) }
        return try QueryPlan(query) { contentTypes.match($0) }
    }
}
