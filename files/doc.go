// Package files knows what a bundle of files is: a [Manifest] of paths, modes and
// contents, whose digest is its version. It does no I/O.
//
// The same tree has the same version, whoever pushes it and whatever lies in the
// store already. Contents are cut into chunks of [ChunkSize], and each chunk is
// named by its SHA-256; so what two versions have in common is stored once and
// travels once.
//
// A manifest comes from other people's machines. [Parse] accepts only one that can be
// written below any directory without touching anything outside of it.
package files
