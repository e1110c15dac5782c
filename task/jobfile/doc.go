// Package jobfile reads and writes job definition files.
//
// A file is YAML and may thus be JSON. Each of its documents defines one [job.Job]. [Parse] reads
// it and reports all problems at once, each with its line. It refuses unknown fields, because a
// misspelt timeout would be no timeout. [Marshal] writes the form that Parse reads. [Schema]
// describes the form to editors.
//
// The package opens no files: bytes in, values out.
package jobfile
