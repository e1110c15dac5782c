// Package tree moves bundles between directories and a [Store]: [Scan] reads a
// directory, [Push] stores what of it the store lacks, [Fetch] writes a version to a
// directory. Memory stays flat however large the files are: no more than some chunks are
// held at a time.
//
// Every write goes through an [os.Root], and every chunk is held against its digest on
// its way in and out.
package tree
