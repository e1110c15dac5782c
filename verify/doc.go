// Package verify holds a log against the promises I-1 to I-11 of Millrace: a
// live log, a part of one, or an export. It reads records in order ([Verifier.Add])
// and says what was checked and what is broken ([Verifier.Report]).
//
// It does no I/O, reads no clock and writes nothing. What it expects of a chain
// it reads off the facts itself and not by [task.Evolve], so that a rule which is
// wrong there is not wrong here in the same way; the fold serves for what is
// defined by it: deadlines (I-1, I-10) and the read model (I-8). Timestamps come
// from clocks of many hosts and say nothing about order; only sequences do.
//
// Below it, limits and ticks have promises of their own, book has what is found, and past and thin what is remembered.
//
// Memory: about 320 bytes for a task of three facts that has ended, so 320 MB for
// a million, and about 590 for one that waits. Of what is only compared with rows a
// digest is kept. Folding a million facts takes
// about 1.6 s on one core of 2.5 GHz, reading them from an export 4 s more
// (BenchmarkAdd, BenchmarkExport).
package verify
