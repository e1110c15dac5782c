// Package replay steps through a span of a log, forward and back. It shows what each fact changed,
// the inputs of decisions, and the duties before and after it. It does no I/O: the caller adds the
// facts of a log or an export to a [Span], and a [Session] runs commands on them.
//
// Stepping back undoes nothing. A subject is folded from its own facts up to the point, of which
// there are few; sums over all subjects are counted from the nearest mark. A breakpoint is a sorted
// list of places, filled by one pass over the span: running to the next one, in either direction,
// is a lookup.
package replay
