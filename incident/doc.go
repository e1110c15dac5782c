// Package incident writes and reads incident files: a span of a log, with all that is needed to fold it, for a machine that
// has nothing else.
//
// [Choice] says which facts of a log a span needs, [Redactor] takes out what is nobody else's business, [Writer] and
// [Open] have the form of the file.
package incident
