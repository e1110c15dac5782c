// Package tree moves bundles between directories and a [Store]: [Scan] reads a directory, [Push]
// stores what the store lacks of it, [Fetch] writes a version to a directory. Memory use does not
// grow with the size of files: only some chunks are held at a time.
//
// Every write goes through an [os.Root], and every chunk is checked against its digest on its way
// in and out.
package tree
