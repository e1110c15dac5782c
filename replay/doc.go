// Package replay steps through a span of a log, forward and back: what each fact changed, by what it was decided, who
// owed what before it and after it. It reads nothing and writes nothing: whoever has a log, or an export of one, adds
// the facts to a [Span], and a [Session] does what it is told with them.
//
// Nothing is undone when somebody steps back. A thing is folded from its own facts up to the point, and there are few of
// those; what adds up over all things is counted from the nearest mark. A breakpoint is a sorted list of places, which
// one pass over the span has filled: to run to the next one, in either direction, is to look it up.
package replay
