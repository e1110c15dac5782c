// Package incident writes and reads incident files: a span of a log with everything needed to fold
// it, for a machine that has nothing else.
//
// [Choice] selects the facts that a span needs, [Redactor] hides confidential values, [Writer] and
// [Open] implement the form of the file. The package does not read a log itself, but for [Sealer], which
// writes the segments of an archive: all of the log up to a horizon. [OpenArchive] reads them.
package incident
