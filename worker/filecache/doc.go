// Package filecache keeps versions of bundles on a node and surrounds attempts with them.
//
// Each version is a directory named by its digest, made once and never changed. It is made
// under a lock of the file system, so any number of workers on a machine may share a
// cache; it counts only when a mark says that it is whole. Whatever ends a process on the way
// leaves a directory without a mark, and the next one goes on with it, chunk by chunk. What
// two versions have in common is copied from the one to the other.
//
// What setup commands make of a version is a directory likewise, named by the digest of
// version and commands; but that one is begun anew if it was not finished.
//
// Tasks of the worker's own user can write to the cache. So each process reads a directory whole before
// it uses it for the first time, and again when the kernel has noted a change of any file in it
// since: that time nobody can put back. What is not as it was made is made anew.
//
// An attempt holds its directory by a shared lock, which ends with its process, so what is
// in use is never removed to make room.
package filecache
