// Package filecache keeps versions of bundles on a node and gives attempts their files.
//
// Each version is a directory named by its digest, made once and never changed. It is made under a
// file lock, so any number of workers on a machine may share a cache. It counts only when a mark
// says that it is complete. A process that dies on the way leaves a directory without a mark, and
// the next process continues it, chunk by chunk. What two versions have in common is copied from
// one to the other.
//
// What setup commands make of a version is another directory, named by the digest of version and
// commands; an unfinished one of these is started anew.
//
// Tasks of the worker's own user can write to the cache. So each process reads a directory
// completely before its first use, and again when the kernel has recorded a later change of any
// file in it: no program can reset that time. A directory that was changed is made anew.
//
// An attempt holds its directory by a shared lock, which ends with its process, so a directory in
// use is never removed to make room.
package filecache
