// Package files defines bundles of files: a [Manifest] lists paths, modes and contents, and its
// digest is the version. The package does no I/O.
//
// The same tree always has the same version, whichever user pushes it and whatever the store holds.
// Contents are cut into chunks of [ChunkSize], and each chunk is named by its SHA-256; so chunks
// that two versions have in common are stored once and sent once.
//
// Manifests come from other machines. [Parse] accepts only those that can be written below any
// directory without touching anything outside it.
package files
