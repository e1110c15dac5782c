// Package verify checks a log against the promises I-1 to I-11 of Millrace: a live log, a part of
// one, or an export. It reads records in order ([Verifier.Add]) and reports what was checked and
// what is broken ([Verifier.Report]).
//
// It does no I/O, reads no clock and writes nothing. It derives its expectations of a chain from
// the facts themselves and not from [task.Evolve], so that it does not repeat an error there. It
// uses the fold only for what the fold defines: deadlines (I-1, I-10) and the read model (I-8).
// Timestamps come from clocks of many hosts and prove no order; only sequences do.
//
// Below it, limits and ticks check promises of their own, book has the findings, and past and thin
// the memory.
//
// Memory: about 320 bytes for an ended task of three facts, so 320 MB for a million, and about 590
// bytes for a waiting one. Values that are only compared with rows are kept as digests. Folding a
// million facts takes about 1.6 s on one core of 2.5 GHz; reading them from an export takes 4 s
// more (BenchmarkAdd, BenchmarkExport).
package verify
