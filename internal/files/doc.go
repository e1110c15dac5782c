// Package files defines bundles of files: a [Manifest] lists paths, modes and contents, and its
// digest is the version. The package does no I/O.
//
// The same tree always has the same version, whichever user pushes it and whatever the store holds.
// Contents are cut into chunks of [ChunkSize], and each chunk is named by its SHA-256; so chunks
// that two versions have in common are stored once and sent once.
//
// Manifests come from other machines. [Parse] accepts only those that can be written below any
// directory without touching anything outside it.
//
// It also moves bundles between directories and a [Store]: [Scan] reads a directory, [Push]
// stores what the store lacks of it, [Fetch] writes a version to a directory. Memory use does not
// grow with the size of files: only some chunks are held at a time.
//
// Every write goes through an [os.Root], and every chunk is checked against its digest on its way
// in and out.
package files
