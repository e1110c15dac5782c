// Package jobfile reads and writes job definition files.
//
// A file is YAML, and so may be JSON; each of its documents defines one
// [job.Job]. [Parse] reads it and reports all that is wrong with it at once,
// each problem with its line; it refuses what it does not know rather than
// ignore it, because a misspelt timeout is no timeout. [Marshal] writes the form
// that Parse reads. [Schema] describes the form to editors.
//
// The package opens no files: bytes in, values out.
package jobfile
