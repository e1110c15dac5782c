// Package files defines bundles of files: a [Manifest] lists paths, modes and contents, and its
// digest is the version.
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
//
// [PrivateDir] and its like make folders that belong only to the user of this program, and refuse
// others. The content of such a folder was put there by this user and can be trusted; a folder that
// another user has made in the same place cannot. They do not check the files in a folder.
package files
